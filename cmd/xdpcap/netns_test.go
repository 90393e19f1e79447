package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// sleeper starts a process in a namespace, which does nothing until the test ends, and returns its
// id.
func sleeper(t *testing.T, ns *testnet.Namespace) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("-F", "-") // waits for a filter on standard input
	cmd.Stdin = r
	if err := ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() {
		w.Close()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// named gives the namespace of a process a name, as ip netns attach does, until the test ends.
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	return filepath.Base(path)
}

// With --netns a command works in another network namespace than its caller, by name, process id or
// path. Its file is the caller's. It keeps no namespace open, which would stay as long.
func TestNetns(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "inside0"})
	pid := sleeper(t, pair.Rx)
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	for _, form := range []string{named(t, pid), fmt.Sprint(pid), path} {
		file := tempFile(t)
		p := listening(t, pair.Tx, nil, "--netns", form, "-i", pair.RxName, "-w", file, "--json", "-c", "3")
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
		if err != nil || len(fds) < 3 {
			t.Fatalf("%d open files, %v", len(fds), err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "net:[") {
				t.Errorf("%s: %s is open", form, to)
			}
		}
		for n := range uint64(3) {
			testnet.Send(t, pair, testnet.UDPFrame(100, n))
		}
		status, stderr := p.wait()
		if s := account(t, stderr); status != 0 || s.Captured != 3 || s.Interfaces[0].Interface != pair.RxName {
			t.Errorf("%s: exit status %d, %+v", form, status, s)
		}
		if packets, _ := readFile(t, file); len(packets) != 3 {
			t.Errorf("%s: %d packets in the file, want 3", form, len(packets))
		}
	}
	for _, args := range [][]string{
		{"interfaces"}, {"-D"}, {"probe", "-i", pair.RxName},
		{"stats", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"count", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"latency", "--builtin", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"monitor", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"drops", "-i", pair.RxName, "-c", "1", "--interval", "20ms"},
		{"__complete", "-i", ""},
	} {
		out := runInside(t, pair.Tx, command(append([]string{args[0], "--netns", path}, args[1:]...)...))
		if !strings.Contains(out, pair.RxName) {
			t.Errorf("%q does not name %s: %s", args, pair.RxName, out)
		}
	}
}

// runInside runs a command in a namespace and returns all that it prints.
func runInside(t *testing.T, ns *testnet.Namespace, cmd *exec.Cmd) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	return out.String()
}

// A mistake in --netns is one line, also in the object of --json.
func TestNetnsErrors(t *testing.T) {
	skipEmulated(t)
	testnet.RequireRoot(t)
	pid := os.Getpid()
	other := testnet.MustPair(t, testnet.PairOptions{})
	elsewhere := fmt.Sprint(sleeper(t, other.Rx))
	for _, test := range []struct {
		cmd  *exec.Cmd
		want string
	}{
		{command("-D", "--netns", "nosuch"), "--netns nosuch: there is no namespace of this name: see ip netns, or give a process id or a path"},
		{command("-D", "--netns", "999999999"), "--netns 999999999: there is no process with this id, and no namespace of this name"},
		{command("-D", "--netns="), `--netns "": must not be empty; see xdpcap --help`},
		{command("-D", "--netns", "/nosuch"), "--netns /nosuch: no such file or directory"},
		{command("-D", "--netns", fmt.Sprintf("/proc/%d/ns/uts", pid)), fmt.Sprintf("--netns /proc/%d/ns/uts: this is no network namespace", pid)},
		{command("--netns", elsewhere), "which interface? -i NAME, or -i any for all; xdpcap interfaces --netns " + elsewhere + " lists them"},
		{command("stats", "-i", "x", "--netns", "/dev/null"), "--netns /dev/null: this is no network namespace"},
		{surroundings{Capabilities: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE}}.command(t, "-D", "--netns", elsewhere),
			"--netns " + elsewhere + ": enter it: operation not permitted: this needs CAP_SYS_ADMIN"},
		{surroundings{Capabilities: []uintptr{unix.CAP_NET_ADMIN}}.command(t, "-D", "--netns", elsewhere),
			"--netns " + elsewhere + ": look at the process: permission denied: this needs CAP_SYS_PTRACE"},
	} {
		if out := runInside(t, other.Tx, test.cmd); out != "xdpcap: "+test.want+"\n" {
			t.Errorf("%q: %s, want %s", test.cmd.Args[1:], out, test.want)
		}
	}
	out := runInside(t, other.Tx, command("-i", "x", "--json", "--netns", "/dev/null"))
	if s := account(t, out); s.Error != "--netns /dev/null: this is no network namespace" {
		t.Errorf("the object says %q", s.Error)
	}
}
