package capture_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Control characters in a name from outside never reach the terminal, because they would change its
// other output.
func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	const name, escaped = "\x1b[31mred0", `\x1b[31mred0`
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddPair(t, pair, name, 1, 1)
	file := filepath.Join(t.TempDir(), "\x1b[2Ja\nb.pcapng")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"interfaces"}, escaped},
		{[]string{"probe", "-i", name}, "interface " + escaped},
		{[]string{"stats", "-i", name, "--count", "1", "--interval", "20ms"}, "listening on " + escaped},
		{[]string{"monitor", "-i", name, "--count", "1", "--interval", "20ms"}, "xdp tracepoints of " + escaped},
		{[]string{"drops", "-i", name, "--count", "1", "--interval", "20ms"}, "packets lost at " + escaped},
		{[]string{"-i", name, "--duration", "20ms", "-w", file}, "listening on " + escaped},
		{[]string{"-i", "\x1b[1m"}, `interface "\x1b[1m" does not exist`},
		{[]string{"-i", name, "-w", file + "/x"}, `\x1b[2Ja\nb.pcapng/x: not a directory`},
		{[]string{"-F", file + "/x"}, `\x1b[2Ja\nb.pcapng/x: not a directory`},
		{[]string{"-i", name, "-c", "\x1b[1m"}, `-c \x1b[1m: must be a positive whole number`},
		{[]string{"-i", name, "--\x1b[1m"}, `unknown flag: --\x1b[1m`},
		{[]string{"-i", name, "tcp", "\x1b[1m"}, "^"},
	} {
		out := systest.RunInside(t, pair.Rx, systest.Command(test.args...))
		if strings.Contains(out, "\x1b") || !strings.Contains(out, test.want) {
			t.Errorf("%q prints %q, want %q in it and no escape character", test.args, out, test.want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// An interface is also found by its alternative names, and then has its own name in all output.
func TestAlternativeNames(t *testing.T) {
	t.Parallel()
	const short, long = "other0", "a-name-of-more-than-sixteen-characters"
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.InRx(t, pair, func(l netlink.Link) error {
		return errors.Join(netlink.LinkAddAltName(l, short), netlink.LinkAddAltName(l, long))
	})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", short, "-w", file, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if s := systest.Account(t, p.Interrupt()); s.Interfaces[0].Interface != pair.RxName || s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
	_, r := systest.ReadFile(t, file)
	if ifi, err := r.Interface(0); err != nil || ifi.Name != pair.RxName {
		t.Errorf("the file's interface is %q, %v", ifi.Name, err)
	}
	counted := systest.Listening(t, pair.Rx, nil, "stats", "-i", long, "--count", "1", "--interval", "20ms").Interrupt()
	if !strings.Contains(counted, "listening on "+pair.RxName+", XDP native") {
		t.Error(counted)
	}
	systest.CheckRefused(t, pair, map[string]string{
		"-i " + short + " -i " + pair.RxName: "interface " + pair.RxName + " is given twice",
		"-i " + strings.Repeat("x", 200):     "does not exist",
	})
}

// named names the namespace of a process, like ip netns attach, until the test ends.
func named(t *testing.T, pid int) string {
	t.Helper()
	path := filepath.Join("/run/netns", fmt.Sprintf("xdpcap-test-%d", os.Getpid()))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		t.Cleanup(func() { os.Remove(path) })
		err = unix.Mount(fmt.Sprintf("/proc/%d/ns/net", pid), path, "", unix.MS_BIND, "")
	}
	testnet.Must(t, err)
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	return filepath.Base(path)
}

// With --netns a command works in another network namespace than its caller, by name, process id or
// path. Its file is in the caller's directory. It keeps no namespace open, because the namespace
// would then stay as long.
func TestNetns(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "inside0"})
	pid := systest.Sleeper(t, pair.Rx)
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	for _, form := range []string{named(t, pid), fmt.Sprint(pid), path} {
		file := systest.TempFile(t)
		p := systest.Listening(t, pair.Tx, nil, "--netns", form, "-i", pair.RxName, "-w", file, "--json", "-c", "3")
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Cmd.Process.Pid))
		if err != nil || len(fds) < 3 {
			t.Fatalf("%d open files, %v", len(fds), err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "net:[") {
				t.Errorf("%s: %s is open", form, to)
			}
		}
		systest.SendNumbered(t, pair, 3, 100)
		status, stderr := p.Wait()
		if s := systest.Account(t, stderr); status != 0 || s.Captured != 3 || s.Interfaces[0].Interface != pair.RxName {
			t.Errorf("%s: exit status %d, %+v", form, status, s)
		}
		if packets, _ := systest.ReadFile(t, file); len(packets) != 3 {
			t.Errorf("%s: %d packets in the file, want 3", form, len(packets))
		}
	}
	for _, args := range [][]string{
		{"interfaces"}, {"-D"}, {"probe", "-i", pair.RxName},
		{"stats", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"count", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"monitor", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"drops", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"__complete", "-i", ""},
		{"latency", "--kernel-stats", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
	} {
		if args[0] == "latency" {
			testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{})
		}
		out := systest.RunInside(t, pair.Tx, systest.Command(append([]string{args[0], "--netns", path}, args[1:]...)...))
		if !strings.Contains(out, pair.RxName) {
			t.Errorf("%q does not name %s: %s", args, pair.RxName, out)
		}
	}
}

// A mistake in --netns is one line, also in the object of --json.
func TestNetnsErrors(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pid := os.Getpid()
	other := testnet.MustPair(t, testnet.PairOptions{})
	elsewhere := fmt.Sprint(systest.Sleeper(t, other.Rx))
	for _, test := range []struct {
		cmd  *exec.Cmd
		want string
	}{
		{systest.Command("-D", "--netns", "nosuch"), "--netns nosuch: there is no namespace of this name: see ip netns, or give a process id or a path"},
		{systest.Command("-D", "--netns", "999999999"), "--netns 999999999: there is no process with this id, and no namespace of this name"},
		{systest.Command("-D", "--netns="), `--netns "": must not be empty; see xdpcap --help`},
		{systest.Command("-D", "--netns", "/nosuch"), "--netns /nosuch: no such file or directory"},
		{systest.Command("-D", "--netns", fmt.Sprintf("/proc/%d/ns/uts", pid)), fmt.Sprintf("--netns /proc/%d/ns/uts: this is no network namespace", pid)},
		{systest.Command("--netns", elsewhere), "which interface? -i rx0, or -i any for all; xdpcap interfaces --netns " + elsewhere + " lists them"},
		{systest.Command("stats", "-i", "x", "--netns", "/dev/null"), "--netns /dev/null: this is no network namespace"},
		{systest.Surroundings{Capabilities: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE}}.Command(t, "-D", "--netns", elsewhere),
			"--netns " + elsewhere + ": enter it: operation not permitted: this needs CAP_SYS_ADMIN"},
		{systest.Surroundings{Capabilities: []uintptr{unix.CAP_NET_ADMIN}}.Command(t, "-D", "--netns", elsewhere),
			"--netns " + elsewhere + ": look at the process: permission denied: this needs CAP_SYS_PTRACE"},
	} {
		if out := systest.RunInside(t, other.Tx, test.cmd); out != "xdpcap: "+test.want+"\n" {
			t.Errorf("%q: %s, want %s", test.cmd.Args[1:], out, test.want)
		}
	}
	out := systest.RunInside(t, other.Tx, systest.Command("-i", "x", "--json", "--netns", "/dev/null"))
	if s := systest.Account(t, out); s.Error != "--netns /dev/null: this is no network namespace" {
		t.Errorf("the object says %q", s.Error)
	}
}
