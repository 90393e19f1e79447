package capture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// setName is a name that no other set of this machine has: all processes share their names.
func setName() string { return fmt.Sprintf("t%08x", rand.Uint32()) }

func writeSet(t *testing.T, path, text string) {
	t.Helper()
	testnet.Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// set runs the command set, and returns what it prints.
func set(t *testing.T, args ...string) string {
	t.Helper()
	out, err := systest.Command(append([]string{"set"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("set %v: %v: %s", args, err, out)
	}
	return string(out)
}

// sequences are the numbers of the captured frames.
func sequences(t *testing.T, file string) (all []uint64) {
	t.Helper()
	records, _ := systest.ReadFile(t, file)
	for _, r := range records {
		seq, _ := testnet.Sequence(r.Data)
		all = append(all, seq)
	}
	return all
}

// reloadDirectory returns a directory for files that captures read again at SIGHUP, when they have
// become another user.
func reloadDirectory(t *testing.T) string {
	t.Helper()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // xdpcap would inherit that it is ignored
	dir := systest.DirectoryFor(t, 0)
	testnet.Must(t, os.Chmod(dir, 0o755))
	return dir
}

// A running filter decides by what set add and set delete have made of its set, and after SIGHUP by
// the file. Another capture with a set of the same name can be left out.
func TestSetChanges(t *testing.T) {
	t.Parallel()
	dir := reloadDirectory(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	name, list, file := setName(), filepath.Join(dir, "list"), systest.TempFile(t)
	writeSet(t, list, "192.0.2.9 # neither of them\n2001:db8::9\n")
	capture := func(file string) *systest.Process {
		return systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--at", "tc", "-w", file, "--json", "--filter-set", name+"="+list, "src host in @"+name)
	}
	p := capture(file)
	sent := uint64(0)
	send := func() {
		t.Helper()
		sent++
		testnet.Send(t, pair, testnet.UDPFrame(64, sent))
		systest.CountsOf(t, p, sent) // the filter has decided about it
	}
	send() // 1
	set(t, "add", name, "192.0.2.1", "192.0.2.8")
	send() // 2
	if diff := cmp.Diff("192.0.2.1\n192.0.2.8\n192.0.2.9\n2001:db8::9\n", set(t, "list", name)); diff != "" {
		t.Errorf("list: %s", diff)
	}
	set(t, "delete", name, "192.0.2.1")
	send() // 3
	for text, want := range map[string]string{
		"add " + name + " 192.0.2.0/24":   "192.0.2.0/24 does not fit into the set " + name + ", in which filters look for addresses",
		"add " + name + " 80":             "80 does not fit into",
		"add " + name + " 192.0.2":        `"192.0.2": must be an IP address`,
		"delete " + name + " 192.0.2.200": "192.0.2.200 is not in the set " + name,
		"list " + setName():               "no running filter has a set ",
		"add " + name:                     "add which elements?",
		"rename " + name:                  `"rename": must be add, delete or list`,
		"add blocked/x 192.0.2.1":         "is no name of a set",
		"list " + name + " --pid 1":       "in the process 1: give one to a capture",
	} {
		if out, err := systest.Command(append([]string{"set"}, strings.Fields(text)...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("set %s: %v: %s", text, err, out)
		}
	}

	// An editor replaces a file by another one.
	writeSet(t, list+".new", "192.0.2.1\n2001:db8::9\n")
	testnet.Must(t, os.Rename(list+".new", list))
	p.Cmd.Process.Signal(syscall.SIGHUP)
	systest.WaitStderr(t, p, "read "+list+" again: 1 added, 2 deleted")
	send() // 4
	writeSet(t, list, "192.0.2.2\n192.0.2.300\n")
	p.Cmd.Process.Signal(syscall.SIGHUP)
	systest.WaitStderr(t, p, "line 2 of "+list+`: "192.0.2.300"`)
	send() // 5

	writeSet(t, list, "192.0.2.2\n")
	other := systest.TempFile(t)
	q := capture(other)
	if out := set(t, "delete", name, "192.0.2.1", "--pid", strconv.Itoa(p.Cmd.Process.Pid)); out != "" {
		t.Errorf("of one process: %s", out)
	}
	send() // 6
	if out, err := systest.Command("set", "list", name).CombinedOutput(); err == nil || !strings.Contains(string(out), "choose one with --pid") {
		t.Errorf("list of two: %v: %s", err, out)
	}
	if out := set(t, "add", name, "192.0.2.1"); !strings.HasPrefix(out, "2 sets changed, of the processes ") {
		t.Errorf("of two: %s", out)
	}
	send() // 7
	systest.CountsOf(t, q, 2)
	p.Interrupt()
	q.Interrupt()
	if diff := cmp.Diff([]uint64{2, 4, 5, 7}, sequences(t, file)); diff != "" {
		t.Errorf("captured: %s", diff)
	}
	if diff := cmp.Diff([]uint64{7}, sequences(t, other)); diff != "" {
		t.Errorf("captured by the other: %s", diff)
	}
}

// A filter can look up in a map that somebody else has pinned, and sees what they change.
func TestSetPinned(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 4})
	testnet.Must(t, err)
	defer m.Close()
	pin := systest.PinHook(t, m)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json", "--filter-set", "theirs="+pin, "ip src host in @theirs")
	testnet.Send(t, pair, testnet.UDPFrame(64, 1))
	systest.CountsOf(t, p, 1)
	testnet.Must(t, m.Put([]byte{192, 0, 2, 1}, uint64(0)))
	testnet.Send(t, pair, testnet.UDPFrame(64, 2))
	systest.CountsOf(t, p, 2)
	p.Interrupt()
	if diff := cmp.Diff([]uint64{2}, sequences(t, file)); diff != "" {
		t.Error(diff)
	}
	for expr, want := range map[string]string{
		"port in @theirs":     "port in needs a hash map with keys of 2 bytes",
		"ip6 host in @theirs": "the set has no IPv6 addresses",
	} {
		if out, err := systest.Command("-d", "--filter-set", "theirs="+pin, expr).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", expr, err, out)
		}
	}
	systest.CheckRefused(t, pair, map[string]string{
		"read " + file + " --filter-set theirs=" + pin + " host in @theirs":                                "is a pinned map, in which only filters in the kernel look up: give a file",
		"-i rx0 -w - --filter-set theirs host in @theirs":                                                  "--filter-set theirs: must be NAME=FILE",
		"-i rx0 -w - --filter-set a=/nosuch host in @a":                                                    "--filter-set a: open /nosuch: no such file or directory",
		"-i rx0 -w - --filter-set a=/dev/null --filter-set a=/dev/null host in @a":                         "there are two sets of this name",
		"-i rx0 -w - --filter-set abcdefghijk=/dev/null host in @a":                                        "is no name of a set: must be 1 to 10",
		"-dd --filter-set a=/dev/null host in @a":                                                          "-dd and -ddd print classic BPF",
		"replay --program none --expect /dev/null --filter-set theirs=" + pin + " " + file + " udp[0] = 1": "pinned map",
	})
}

// Filters outside of the kernel look up in sets, too, and so do those of counters.
func TestSetElsewhere(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	list, file := filepath.Join(t.TempDir(), "list"), systest.TempFile(t)
	writeSet(t, list, "192.0.2.0/31\n2001:db8::2\n")
	frames := testnet.MixedTraffic()
	captureFrames(t, pair, frames, "-w", file)
	for expr, same := range map[string]string{
		"net in @list":                 "net 192.0.2.0/31 or host 2001:db8::2",
		"dst net in @list and not tcp": "(dst net 192.0.2.0/31 or ip6 dst host 2001:db8::2) and not tcp",
	} {
		read := systest.TempFile(t)
		want := systest.OutputOf(t, "tcpdump", "-nr", file, "--count", same)
		got, err := systest.Command("read", file, "-w", read, "--filter-set", "list="+list, expr).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if n := systest.OutputOf(t, "tcpdump", "-nr", read, "--count"); n != want || strings.HasPrefix(want, "0 ") {
			t.Errorf("read %s: %s, want %s", expr, n, want)
		}
		p, output := systest.Counting(t, pair, "count", "-i", "rx0", "--json", "--interval", "1h", "--filter-set", "list="+list, expr)
		testnet.Send(t, pair, frames...)
		p.Interrupt()
		if n := systest.LastObject[systest.CountReport](t, output()).Total.Packets; !strings.HasPrefix(want, fmt.Sprint(n, " ")) {
			t.Errorf("count %s: %d packets, want %s", expr, n, want)
		}
	}
}
