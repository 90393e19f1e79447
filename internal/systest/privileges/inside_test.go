package privileges_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// tryInside is set for a test binary that runs as xdpcap and tries what its sandbox permits. The
// test asks it over descriptor 3, when it has done its first work.
const tryInside = "XDPCAP_TEST_INSIDE"

// attempts are actions that an attacker who has taken over the process would try. They get the
// directory of its output, and a port on which somebody listens.
var attempts = map[string]func(dir string, port int) error{
	"read a file":        func(dir string, _ int) error { _, err := os.ReadFile(dir + "/secret"); return err },
	"list a directory":   func(dir string, _ int) error { _, err := os.ReadDir(dir); return err },
	"read passwords":     func(string, int) error { _, err := os.ReadFile("/etc/shadow"); return err },
	"look into /run":     func(string, int) error { _, err := os.ReadDir("/run"); return err }, // where names of pods are
	"read of the kernel": func(string, int) error { _, err := os.ReadFile("/proc/stat"); return err },
	"make a file":        func(dir string, _ int) error { return os.WriteFile(dir+"/made", nil, 0o600) },
	"write to a file":    func(dir string, _ int) error { return writeTo(dir + "/secret") },
	"make a directory":   func(dir string, _ int) error { return os.Mkdir(dir+"/directory", 0o700) },
	"change a mode":      func(dir string, _ int) error { return os.Chmod(dir+"/secret", 0o600) },
	"change an owner":    func(dir string, _ int) error { return os.Lchown(dir+"/secret", -1, -1) },
	"change the times":   func(dir string, _ int) error { return os.Chtimes(dir+"/secret", time.Now(), time.Now()) },
	"truncate a file":    func(dir string, _ int) error { return os.Truncate(dir+"/secret", 0) },
	"link a file":        func(dir string, _ int) error { return os.Link(dir+"/secret", dir+"/made2") },
	"rename a file":      func(dir string, _ int) error { return os.Rename(dir+"/other", dir+"/another") },
	"remove a file":      func(dir string, _ int) error { return os.Remove(dir + "/removable") },
	"start a program":    func(string, int) error { return exec.Command("/bin/true").Run() },
	"connect": func(_ string, port int) error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
		}
		return err
	},
	"listen": func(string, int) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	},
	"connect elsewhere": func(string, int) error {
		// Landlock refuses the port before anybody is asked. A refusal of the other side is a
		// success.
		conn, err := net.Dial("tcp", "127.0.0.1:1")
		if err == nil {
			conn.Close()
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		return err
	},
	"make a Unix socket":   func(string, int) error { return makeSocket(unix.AF_UNIX, unix.SOCK_DGRAM) },
	"make a socket of UDP": func(string, int) error { return makeSocket(unix.AF_INET, unix.SOCK_DGRAM) },
	"make a raw socket":    func(string, int) error { return makeSocket(unix.AF_PACKET, unix.SOCK_DGRAM) },
	"type into the terminal": func(string, int) error {
		// The question is not a terminal, which the kernel finds out if it is asked at all.
		text := byte('x')
		if _, _, err := unix.Syscall(unix.SYS_IOCTL, 3, unix.TIOCSTI, uintptr(unsafe.Pointer(&text))); err != unix.ENOTTY {
			return err
		}
		return nil
	},
	"limit the parent": func(string, int) error {
		return unix.Prlimit(unix.Getppid(), unix.RLIMIT_CPU, nil, new(unix.Rlimit))
	},
	"execute memory": func(string, int) error {
		_, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	},
	"be root": func(string, int) error {
		if os.Getuid() != 0 {
			return unix.EPERM
		}
		return nil
	},
	"trace itself": func(string, int) error { return unix.PtraceSeize(os.Getpid()) },
	"use a keyring": func(string, int) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		return err
	},
	"use io_uring": func(string, int) error {
		var params [128]byte
		fd, _, err := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		if err != 0 {
			return err
		}
		return unix.Close(int(fd))
	},
	"signal the parent": func(string, int) error { return unix.Kill(unix.Getppid(), 0) },
}

func writeTo(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func makeSocket(family, kind int) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// An insideQuestion is what is to be tried.
type insideQuestion struct {
	Dir  string
	Port int
}

// answerInside tries everything when it is asked, and answers with what was allowed.
func answerInside() {
	asked := os.NewFile(3, "asked")
	var q insideQuestion
	if json.NewDecoder(asked).Decode(&q) != nil {
		return
	}
	allowed := []string{}
	for name, try := range attempts {
		if try(q.Dir, q.Port) == nil {
			allowed = append(allowed, name)
		}
	}
	json.NewEncoder(asked).Encode(allowed)
}

// An inside is a connection to the inside of a process.
type inside struct{ conn *os.File }

// openInside lets a command of the test binary be asked.
func openInside(t *testing.T, cmd *exec.Cmd) inside {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := os.NewFile(uintptr(pair[0]), "inside"), os.NewFile(uintptr(pair[1]), "inside")
	t.Cleanup(func() { own.Close(); theirs.Close() })
	cmd.Path, cmd.ExtraFiles = os.Args[0], []*os.File{theirs}
	cmd.Env = append(cmd.Env, tryInside+"=1", systest.StrictCalls+"=") // attempts fail
	return inside{own}
}

// allowed are the attempts that succeed.
func (i inside) allowed(t *testing.T, dir string, port int) (names []string) {
	t.Helper()
	err := json.NewEncoder(i.conn).Encode(insideQuestion{dir, port})
	if err == nil {
		err = json.NewDecoder(i.conn).Decode(&names)
	}
	if err != nil {
		t.Fatal("ask the inside:", err)
	}
	slices.Sort(names)
	return names
}

// directoryToTry is where attempts are made.
func directoryToTry(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"secret", "other", "removable"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fileAttempts are those on files of a directory in which more files will be made, and whose
// process is still root's, because such a directory is.
var fileAttempts = []string{"make a file", "write to a file", "rename a file", "remove a file", "read a file", "list a directory", "be root"}

// everything are the attempts of a process that starts other programs.
var everything = []string{"read passwords", "look into /run", "start a program", "connect", "connect elsewhere", "listen", "signal the parent",
	"make a Unix socket", "make a socket of UDP", "use a keyring", "use io_uring", "make a directory", "change a mode", "change an owner",
	"change the times", "truncate a file", "link a file", "type into the terminal", "limit the parent", "execute memory"}

// An attacker who takes over a capture or a counter command can do what it still needs to do, and
// nothing else.
func TestInside(t *testing.T) {
	t.Parallel()
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	for i, test := range []struct {
		args string // DIR, PORT and IFACE are replaced
		want []string
	}{
		{"-i IFACE -w DIR/out", nil},
		{"-i IFACE", nil},
		{"-i IFACE -w DIR/out --json=DIR/counts -Z nobody", nil},
		{"-i IFACE -w DIR/out -Z root", []string{"be root"}},
		{"-i IFACE -w DIR/out -C 1M", fileAttempts},
		{"-i IFACE -w DIR/out --atomic", fileAttempts},
		{"-i IFACE -w DIR/out --ring 16M", fileAttempts},
		{"-i IFACE -w DIR/out --serve unix:DIR/socket", []string{"remove a file", "be root"}},
		{"-i IFACE -w DIR/out --serve :0 --listen :0", nil},
		{"-i IFACE -w tcp://127.0.0.1:PORT", append([]string{"connect"}, otherPorts()...)},
		{"-i IFACE -w tcp://localhost:PORT", append([]string{"connect", "make a socket of UDP"}, otherPorts()...)},
		{"-i IFACE -w sflow://127.0.0.1", []string{"make a socket of UDP"}},
		{"-i IFACE -w DIR/out -z true", append(everything, fileAttempts...)},
		{"-i any", nil},
		{"-i IFACE --count", nil},
		{"stats -i IFACE", nil},
		{"stats --listen 127.0.0.1:0", nil},
		{"count --flows 5 -i IFACE", nil},
		{"latency --builtin -i IFACE", nil},
		{"latency --builtin --events -i IFACE", nil},
		{"monitor", nil},
		{"monitor --record", nil},
		{"monitor -i IFACE", nil},
		{"drops", nil},
		{"drops -i IFACE", nil},
	} {
		needs := strings.Contains(test.args, "-z") || strings.Contains(test.args, "localhost") // a program, and /etc/hosts
		if !testnet.Shared(i) || needs && testnet.Emulated() {
			continue
		}
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir, port := directoryToTry(t), 0
			pair.Rx.Do(func() error { port = listenForever(t); return nil })
			args := strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(port), "IFACE", pair.RxName).Replace(test.args)
			cmd := systest.Command(strings.Fields(args)...)
			in := openInside(t, cmd)
			p := systest.StartCommand(t, pair.Rx, nil, cmd).Listening()
			got, want := in.allowed(t, dir, port), append([]string{"read of the kernel"}, test.want...)
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
				t.Error(diff)
			}
			p.Interrupt()
		})
	}
}

// otherPorts are the attempts of a process that connects by TCP, but which this kernel's Landlock
// cannot keep to one port.
func otherPorts() []string {
	if privilege.LandlockABI() < 4 {
		return []string{"connect elsewhere"}
	}
	return nil
}

// listenForever is a port of this network namespace where somebody listens until the test ends.
func listenForever(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return 0
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// filtered says whether system calls are filtered in every thread of a process. That is the last
// step of giving up rights.
func filtered(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && !strings.Contains(string(text), "\nSeccomp:\t2\n") {
			return false
		}
	}
	return len(files) > 1
}

// read gives up everything before it looks at the first byte of a file. It keeps only its output.
func TestInsideRead(t *testing.T) {
	t.Parallel()
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	file := systest.WriteSample(t, systest.PlainSource)
	for _, args := range []string{"read -", "-r -", "read - -w DIR/out", "read --stats -"} {
		t.Run(args, func(t *testing.T) {
			dir, port := directoryToTry(t), listenForever(t)
			cmd := systest.Command(strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
			in := openInside(t, cmd)
			input, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out := &strings.Builder{}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			p := &systest.Process{T: t, Cmd: cmd}
			// Not one byte has been written to its input.
			testnet.WaitFor(t, "all threads to be in the sandbox", func() bool { return filtered(cmd.Process.Pid) })
			checkPowerless(t, p)
			if got := in.allowed(t, dir, port); len(got) > 0 {
				t.Errorf("allowed: %q", got)
			}
			content := systest.Contents(t, file.Path)
			if _, err := input.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
			input.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if strings.Contains(args, "-w") && systest.Contents(t, dir+"/out") != content {
				t.Error("the output is not what was read")
			}
		})
	}
}
