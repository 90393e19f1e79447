package privileges_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// tryInside is set for a test binary that runs as xdpcap and tries actions inside its sandbox. The
// test sends a question over descriptor 3, after the process's first work.
const tryInside = "XDPCAP_TEST_INSIDE"

// An insideQuestion has the arguments of the attempts.
type insideQuestion struct {
	Dir, Elsewhere string // the directory of the output, and another one; both belong to the process's user
	Port           int    // of TCP, with a listener at 127.0.0.1
	Other          int    // another process of the same user
}

// attempts are actions that an attacker who has taken over the process would try.
var attempts = map[string]func(q insideQuestion) error{
	"read a file":           func(q insideQuestion) error { _, err := os.ReadFile(q.Dir + "/secret"); return err },
	"read a file elsewhere": func(q insideQuestion) error { _, err := os.ReadFile(q.Elsewhere + "/secret"); return err },
	"list a directory":      func(q insideQuestion) error { _, err := os.ReadDir(q.Dir); return err },
	"read settings":         func(insideQuestion) error { _, err := os.ReadFile("/etc/passwd"); return err },
	"look into /run":        func(insideQuestion) error { _, err := os.ReadDir("/run"); return err }, // where names of pods are
	"look at modules":       func(insideQuestion) error { _, err := os.ReadDir("/lib/modules"); return err },
	"read of the kernel":    func(insideQuestion) error { _, err := os.ReadFile("/proc/stat"); return err },
	"make a file":           func(q insideQuestion) error { return os.WriteFile(q.Dir+"/made", nil, 0o600) },
	"make a file elsewhere": func(q insideQuestion) error { return os.WriteFile(q.Elsewhere+"/made", nil, 0o600) },
	"write to a file":       func(q insideQuestion) error { return writeTo(q.Dir + "/secret") },
	"make a directory":      func(q insideQuestion) error { return os.Mkdir(q.Dir+"/directory", 0o700) },
	"change a mode":         func(q insideQuestion) error { return os.Chmod(q.Dir+"/secret", 0o600) },
	"change an owner":       func(q insideQuestion) error { return os.Lchown(q.Dir+"/secret", -1, -1) },
	"change the times":      func(q insideQuestion) error { return os.Chtimes(q.Dir+"/secret", time.Now(), time.Now()) },
	"truncate a file":       func(q insideQuestion) error { return os.Truncate(q.Dir+"/secret", 0) },
	"link a file":           func(q insideQuestion) error { return os.Link(q.Dir+"/secret", q.Dir+"/made2") },
	"rename a file":         func(q insideQuestion) error { return os.Rename(q.Dir+"/other", q.Dir+"/another") },
	"remove a file":         func(q insideQuestion) error { return os.Remove(q.Dir + "/removable") },
	"start a program":       func(insideQuestion) error { return exec.Command("/bin/true").Run() },

	"connect":                 func(q insideQuestion) error { return mayConnect("127.0.0.1", q.Port) },
	"connect to another host": func(q insideQuestion) error { return mayConnect("127.0.0.2", q.Port) },
	"connect elsewhere":       func(insideQuestion) error { return mayConnect("127.0.0.1", 1) },
	"ask a name server":       func(insideQuestion) error { return mayConnect("127.0.0.1", 53) },
	"send by UDP": func(insideQuestion) error {
		conn, err := net.Dial("udp", "127.0.0.2:9")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("packets"))
		return err
	},
	"listen": func(insideQuestion) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	},
	"make a Unix socket": func(insideQuestion) error { return makeSocket(unix.AF_UNIX, unix.SOCK_DGRAM) },
	"make a raw socket":  func(insideQuestion) error { return makeSocket(unix.AF_PACKET, unix.SOCK_DGRAM) },

	"type into the terminal": func(insideQuestion) error {
		// The question is not a terminal, which the kernel can only find out if the call is
		// allowed.
		text := byte('x')
		if _, _, err := unix.Syscall(unix.SYS_IOCTL, 3, unix.TIOCSTI, uintptr(unsafe.Pointer(&text))); err != unix.ENOTTY {
			return err
		}
		return nil
	},
	"limit another process": func(q insideQuestion) error {
		return unix.Prlimit(q.Other, unix.RLIMIT_CPU, nil, new(unix.Rlimit))
	},
	"signal another process": func(q insideQuestion) error { return unix.Kill(q.Other, 0) },
	"trace another process":  func(q insideQuestion) error { return unix.PtraceSeize(q.Other) },
	"execute memory that it has written": func(insideQuestion) error {
		memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		defer unix.Munmap(memory)
		return unix.Mprotect(memory, unix.PROT_READ|unix.PROT_EXEC)
	},
	"map memory to execute": func(insideQuestion) error {
		memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err == nil {
			unix.Munmap(memory)
		}
		return err
	},
	"be root": func(insideQuestion) error {
		if os.Getuid() != 0 {
			return unix.EPERM
		}
		return nil
	},
	"become root": func(insideQuestion) error {
		if _, _, err := unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0); err != 0 { // this thread alone
			return err
		}
		return nil
	},
	"load a program": func(insideQuestion) error {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, License: "GPL"})
		if err == nil {
			p.Close()
		}
		return err
	},
	"use a keyring": func(insideQuestion) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		return err
	},
	"use io_uring": func(insideQuestion) error {
		var params [128]byte
		fd, _, err := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		if err != 0 {
			return err
		}
		return unix.Close(int(fd))
	},
}

func writeTo(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// mayConnect tries to connect by TCP. Landlock refuses the port before a packet is sent, so a
// refused connection counts as allowed.
func mayConnect(host string, port int) error {
	conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err == nil {
		conn.Close()
	}
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

func makeSocket(family, kind int) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// answerInside tries all actions when a question arrives, and answers with the allowed ones.
func answerInside() {
	asked := os.NewFile(3, "asked")
	var q insideQuestion
	if json.NewDecoder(asked).Decode(&q) != nil {
		return
	}
	allowed := []string{}
	for name, try := range attempts {
		if try(q) == nil {
			allowed = append(allowed, name)
		}
	}
	json.NewEncoder(asked).Encode(allowed)
}

// An inside is a connection to a process in its sandbox.
type inside struct {
	conn *os.File
	q    insideQuestion
}

// openInside starts a command of the test binary that answers questions. Its output is in
// inside.q.Dir.
func openInside(t *testing.T, cmd *exec.Cmd, q insideQuestion) inside {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	testnet.Must(t, err)
	own, theirs := os.NewFile(uintptr(pair[0]), "inside"), os.NewFile(uintptr(pair[1]), "inside")
	t.Cleanup(func() { own.Close(); theirs.Close() })
	cmd.Path, cmd.ExtraFiles = os.Args[0], []*os.File{theirs}
	cmd.Env = append(cmd.Env, tryInside+"=1", systest.StrictCalls+"=") // with attempts that fail
	return inside{own, q}
}

// allowed returns the attempts that succeed. Directories, files and the other process belong to the
// process's user, so that owner and mode refuse no attempt.
func (i inside) allowed(t *testing.T, p *systest.Process) (names []string) {
	t.Helper()
	is, uid := rights(t, p, "Uid"), 0
	if _, err := fmt.Sscanf(is[0], "Uid: %d", &uid); err != nil || len(is) != 1 {
		t.Fatalf("%q, %v", is, err)
	}
	for _, dir := range []string{i.q.Dir, i.q.Elsewhere} {
		files, _ := filepath.Glob(dir + "/*")
		for _, path := range append(files, dir) {
			testnet.Must(t, os.Chown(path, uid, uid))
		}
	}
	i.q.Other = startOther(t, uid)
	err := json.NewEncoder(i.conn).Encode(i.q)
	if err == nil {
		err = json.NewDecoder(i.conn).Decode(&names)
	}
	if err != nil {
		t.Fatal("ask the inside:", err)
	}
	slices.Sort(names)
	return names
}

// beOther is set for a test binary that runs until its standard input ends.
const beOther = "XDPCAP_TEST_OTHER"

// startOther starts a process of a user, without capabilities if that is not root.
func startOther(t *testing.T, uid int) (pid int) {
	t.Helper()
	cmd := systest.Command()
	systest.OpenForAll(t, cmd, os.Args[0])
	cmd.Env = append(cmd.Env, beOther+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	testnet.Must(t, err)
	t.Cleanup(func() { input.Close(); cmd.Wait() })
	return cmd.Process.Pid
}

// placesToTry returns the directories of the attempts.
func placesToTry(t *testing.T) (q insideQuestion) {
	t.Helper()
	q.Dir, q.Elsewhere = systest.DirectoryFor(t, 0), systest.DirectoryFor(t, 0)
	for _, dir := range []string{q.Dir, q.Elsewhere} {
		for _, name := range []string{"secret", "other", "removable"} {
			testnet.Must(t, os.WriteFile(dir+"/"+name, nil, 0o600))
		}
	}
	return q
}

// args returns the arguments in a text, with DIR, PORT and IFACE replaced.
func (q *insideQuestion) args(text, iface string) []string {
	return strings.Fields(strings.NewReplacer("DIR", q.Dir, "PORT", strconv.Itoa(q.Port), "IFACE", iface).Replace(text))
}

// fileAttempts are attempts on files of a directory in which more files will be created, and whose
// process is still root's, because the directory is.
var fileAttempts = []string{"make a file", "write to a file", "rename a file", "remove a file", "read a file", "list a directory", "be root"}

// everything is the attempts of a process that starts other programs.
var everything = []string{"read settings", "look into /run", "read a file elsewhere", "start a program", "connect", "connect to another host",
	"connect elsewhere", "ask a name server", "send by UDP", "listen", "signal another process", "limit another process",
	"make a Unix socket", "use a keyring", "use io_uring", "make a directory", "change a mode", "change an owner",
	"change the times", "truncate a file", "link a file", "type into the terminal",
	"execute memory that it has written", "map memory to execute", "become root"}

// lookingUp is the attempts that the look-up of a host's name needs.
var lookingUp = append(ports("ask a name server"), "send by UDP", "read settings")

// attaching is the attempts of a process that attaches to later interfaces.
var attaching = append(modules(), "load a program")

// ports is attempts to connect, or all of them if the kernel's Landlock has no rules for ports.
func ports(known ...string) []string {
	if privilege.LandlockABI() < 4 {
		return []string{"connect", "connect to another host", "connect elsewhere", "ask a name server"}
	}
	return known
}

// modules is the attempt to list the kernel's modules, if there are any.
func modules() []string {
	if _, err := os.Stat("/lib/modules"); err != nil {
		return nil
	}
	return []string{"look at modules"}
}

// An insideLine is a command line, in which DIR, PORT and IFACE are replaced, and the attempts that
// succeed inside its process.
type insideLine struct {
	args string
	want []string
}

var insideLines = []insideLine{
	{"-i IFACE -w DIR/out", nil},
	{"-i IFACE", nil},
	{"-i IFACE -w DIR/out --json=DIR/counts -Z nobody", nil},
	{"-i IFACE -w DIR/out -Z root", []string{"be root"}},
	{"-i IFACE -w DIR/out -C 1M", fileAttempts},
	{"-i IFACE -w DIR/out --atomic", fileAttempts},
	{"-i IFACE -w DIR/out --ring 16M", fileAttempts},
	{"-i IFACE -w DIR/out --serve unix:DIR/socket", []string{"remove a file", "be root"}},
	{"-i IFACE -w DIR/out --serve :0 --listen :0", nil},
	{"-i IFACE -w tcp://127.0.0.1:PORT", ports("connect", "connect to another host")},
	{"-i IFACE -w tcp://localhost:PORT", append(ports("connect", "connect to another host"), lookingUp...)},
	{"-i IFACE -w sflow://127.0.0.1", []string{"send by UDP"}},
	{"-i IFACE -w sflow://localhost", lookingUp},
	{"-i IFACE -w DIR/out -z true", append(everything, fileAttempts...)},
	{"-i any", attaching},
	{"-i IFACE --count", nil},
	{"-i IFACE --drops", nil},
	{"stats -i IFACE", nil},
	{"stats --listen 127.0.0.1:0", attaching},
	{"count --flows 5 -i IFACE", nil},
	{"count --listen 127.0.0.1:0 -i IFACE", nil},
	{"latency --kernel-stats -i IFACE", []string{"load a program"}}, // by CAP_SYS_ADMIN
	{"monitor", nil},
	{"monitor --record", nil},
	{"monitor -i IFACE", []string{"load a program"}}, // by CAP_SYS_ADMIN
	{"drops", nil},
	{"drops -i IFACE", attaching},
}

// An attacker who takes over a capture or a counter command can only do what the command itself
// still needs.
func TestInside(t *testing.T) {
	t.Parallel()
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	for i, test := range insideLines {
		needs := strings.Contains(test.args, "-z") || strings.Contains(test.args, "localhost") // a program, and /etc/hosts
		if !testnet.Shared(i) || needs && testnet.Emulated() {
			continue
		}
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			if strings.HasPrefix(test.args, "latency") {
				testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{})
			}
			q := placesToTry(t)
			pair.Rx.Do(func() error { q.Port = listenForever(t); return nil })
			cmd := systest.Command(q.args(test.args, pair.RxName)...)
			in := openInside(t, cmd, q)
			p := systest.StartCommand(t, pair.Rx, nil, cmd).Listening()
			got, want := in.allowed(t, p), append([]string{"read of the kernel"}, test.want...)
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
				t.Error(diff)
			}
			p.Interrupt()
		})
	}
}

// listenForever returns a port of this network namespace with a listener until the test ends.
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

// filtered reports whether system calls are filtered in every thread of a process. That is the last
// step of dropping rights.
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

var insideReadLines = []insideLine{
	{"read -", nil},
	{"-r -", nil},
	{"read - -w DIR/out", nil},
	{"read --stats -", nil},
	{"replay --program DIR/target.o:rewriting_target_program -", nil},
	{"read - -w DIR/out -C 1M", fileAttempts},
	{"read - -w tcp://127.0.0.1:PORT", ports("connect", "connect to another host")},
}

// read drops all rights before it reads the first byte of a file. It keeps only its output.
func TestInsideRead(t *testing.T) {
	t.Parallel()
	if privilege.LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	file := systest.WriteSample(t, systest.PlainSource)
	for _, test := range insideReadLines {
		t.Run(test.args, func(t *testing.T) {
			q := placesToTry(t)
			q.Port = listenForever(t)
			testnet.Must(t, os.WriteFile(q.Dir+"/target.o", testnet.TargetObject(), 0o600))
			cmd := systest.Command(q.args(test.args, "")...)
			in := openInside(t, cmd, q)
			input, err := cmd.StdinPipe()
			testnet.Must(t, err)
			out := &strings.Builder{}
			cmd.Stdout, cmd.Stderr = out, out
			testnet.Must(t, cmd.Start())
			p := &systest.Process{T: t, Cmd: cmd}
			// No byte has been written to its input.
			testnet.WaitFor(t, "all threads to be in the sandbox", func() bool { return filtered(cmd.Process.Pid) })
			checkPowerless(t, p)
			got, want := in.allowed(t, p), slices.Sorted(slices.Values(test.want))
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			content := systest.Contents(t, file.Path)
			if _, err := input.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
			input.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if strings.Contains(test.args, "-w DIR/out") && systest.Contents(t, q.Dir+"/out") != content {
				t.Error("the output is not what was read")
			}
		})
	}
}

// Each command has a command line above, except commands that drop no rights, which SECURITY.md
// lists, gather, which is read of several streams, and top, which needs a terminal: TestTop sees
// what it has given up.
func TestInsideHasCommands(t *testing.T) {
	t.Parallel()
	const without = "completion config filter gather help interfaces man probe set top"
	for _, c := range cli.NewRoot().Commands() {
		name := c.Name()
		has := slices.ContainsFunc(slices.Concat(insideLines, insideReadLines), func(l insideLine) bool { return strings.HasPrefix(l.args, name+" ") })
		if has == slices.Contains(strings.Fields(without), name) {
			t.Errorf("%s is tried from inside: %v", name, has)
		}
	}
}

// The names of tcp:// are resolved and TLS is negotiated with all rights: the first bytes on the
// connection come from a process that is not in the sandbox yet.
func TestBeforeSandbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	systest.MakeCertificates(t, dir)
	for _, args := range []string{"read tcp://localhost:PORT --tls-ca DIR/ca.pem", "-i IFACE -w tcp://localhost:PORT --tls-ca DIR/ca.pem"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			l := systest.MustListen(t, pair.Rx)
			l.SetDeadline(time.Now().Add(testnet.Patience))
			q := insideQuestion{Dir: dir, Port: l.Addr().(*net.TCPAddr).Port}
			p := systest.Start(t, pair.Rx, nil, q.args(args, pair.RxName)...)
			conn, err := l.Accept()
			testnet.Must(t, err)
			defer conn.Close()
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // of the client's hello
				t.Fatal(err)
			}
			if filtered(p.Cmd.Process.Pid) {
				t.Error("it is in the sandbox: SECURITY.md says that it is not")
			}
		})
	}
}
