package systest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Volume is a user id without a name, like the owner of a container's volume.
const Volume = 4_000_000

// Probe runs the command in the receiving namespace.
func Probe(t *testing.T, pair *testnet.Pair, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	stdout, stderr, status = Run(t, pair.Rx, Command(append([]string{"probe"}, args...)...))
	return status, stdout, stderr
}

// ProbeJSON has those keys of probe --json that the tests check.
type ProbeJSON struct {
	CanCapture bool `json:"can_capture"`
	Interface  struct {
		Native  struct{ Answer string } `json:"native_xdp"`
		Program *struct {
			Mode      string
			Traceable struct{ Answer, Reason string }
		}
	}
	Features, Drops map[string]struct{ Answer, Reason string }
}

const Nobody = 65534 // in Debian's /etc/passwd

// DirectoryFor creates a directory that belongs to a user, at a path that this user can reach.
func DirectoryFor(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox")
	testnet.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testnet.Must(t, os.Chown(dir, uid, uid))
	return dir
}

const NoCapability = "0000000000000000"

// OwnerOf returns the user id of a file's owner.
func OwnerOf(t *testing.T, file string) int {
	t.Helper()
	var info unix.Stat_t
	testnet.Must(t, unix.Stat(file, &info))
	return int(info.Uid)
}

// Contents returns the text of a file.
func Contents(t *testing.T, file string) string {
	t.Helper()
	return string(ReadBytes(t, file))
}

// As runs a binary as the user somebody, who is in these groups and in a group of his own.
func As(t *testing.T, binary string, groups []uint32, args ...string) *exec.Cmd {
	cmd := Command(args...)
	cmd.Path, cmd.Dir = binary, "/"
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, SettingsFileVariable+"=") }) // otherwise xdpcap prints that it ignores the variable
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(Somebody(t)), Gid: uint32(Somebody(t)), Groups: groups}}
	return cmd
}

// Statistics returns the statistics in a file of its first interface.
func Statistics(t *testing.T, r *pcapgo.NgReader) pcapgo.NgInterfaceStatistics {
	t.Helper()
	ifi, err := r.Interface(0)
	testnet.Must(t, err)
	return ifi.Statistics
}

// inSurroundings is set if the test binary must enter surroundings before it becomes xdpcap.
const inSurroundings = "XDPCAP_TEST_SURROUNDINGS"

// Surroundings are the differences between the environment of an xdpcap process and that of the
// tests.
type Surroundings struct {
	// Ahead is by how many seconds the monotonic clock of its time namespace is ahead; 0 = no time
	// namespace of its own.
	Ahead int
	// Hidden are directories that are empty for the process.
	Hidden []string
	// Run is the directory that the process has at /run; "" = the machine's.
	Run string
	// Refused are system calls that fail with EPERM by a seccomp filter.
	Refused []uint32
	// Limits are its resource limits, by their numbers.
	Limits map[int]uint64
	// Cgroup is the directory of the cgroup that it enters; "" = the tests' cgroup.
	Cgroup string
	// Capabilities are the process's capabilities as a user that is not root; nil = it is root.
	Capabilities []uintptr
}

// Somebody returns the user of a test's unprivileged processes. Each test has another one, because
// perf's limit for locked memory is per user.
func Somebody(t *testing.T) int {
	users.Lock()
	defer users.Unlock()
	if users.of[t.Name()] == 0 {
		users.of[t.Name()] = 100_000 + 1000*os.Getpid() + len(users.of)
	}
	return users.of[t.Name()]
}

var users = struct {
	sync.Mutex
	of map[string]int // by the names of tests
}{of: make(map[string]int)}

// Command returns a command for xdpcap in these surroundings, not started.
func (s Surroundings) Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(s)
	testnet.Must(t, err)
	cmd := Command(args...)
	cmd.Env = append(cmd.Env, inSurroundings+"="+string(text))
	cmd.Path = os.Args[0] // enters the surroundings
	if s.Capabilities == nil {
		return cmd
	}
	OpenForAll(t, cmd, os.Args[0], XdpcapPath)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: uint32(Somebody(t)), Gid: uint32(Somebody(t))},
		AmbientCaps: s.Capabilities,
	}
	return cmd
}

// OpenForAll makes a command run the first of the files. The command gets them as open files, from
// descriptor 3, because they are in directories that only root may enter.
func OpenForAll(t *testing.T, cmd *exec.Cmd, files ...string) {
	t.Helper()
	for _, name := range files {
		file, err := os.Open(name)
		testnet.Must(t, err)
		t.Cleanup(func() { file.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	cmd.Path = "/proc/self/fd/3"
	cmd.Dir = "/"
}

// enterSurroundings enters the surroundings in the environment, and becomes xdpcap there.
func enterSurroundings() error {
	runtime.LockOSThread()
	var s Surroundings
	if err := json.Unmarshal([]byte(os.Getenv(inSurroundings)), &s); err != nil {
		return err
	}
	xdpcap := XdpcapPath
	if s.Capabilities != nil {
		xdpcap = "/proc/self/fd/4"
	}
	if s.Ahead != 0 {
		if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
			return fmt.Errorf("make a time namespace: %w", err)
		}
		offsets := fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid())
		if err := os.WriteFile(offsets, fmt.Appendf(nil, "monotonic %d 0", s.Ahead), 0); err != nil {
			return err
		}
	}
	if s.Cgroup != "" {
		const self = "0"
		if err := os.WriteFile(filepath.Join(s.Cgroup, "cgroup.procs"), []byte(self), 0); err != nil {
			return err
		}
	}
	if err := remount(&s); err != nil {
		return err
	}
	if err := refuse(s.Refused); err != nil {
		return err
	}
	for resource, limit := range s.Limits {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	os.Unsetenv(inSurroundings)
	return syscall.Exec(xdpcap, os.Args, os.Environ())
}

// remount mounts an empty file system over each hidden directory, and another directory over /run,
// in a mount namespace of this thread.
func remount(s *Surroundings) error {
	if s.Hidden == nil && s.Run == "" {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts in the namespace: %w", err)
	}
	for _, d := range s.Hidden {
		if err := unix.Mount("empty", d, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("hide %s: %w", d, err)
		}
	}
	if s.Run == "" {
		return nil
	}
	if err := unix.Mount(s.Run, "/run", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s at /run: %w", s.Run, err)
	}
	return nil
}

// refuse installs a seccomp filter that makes these system calls fail with EPERM.
func refuse(calls []uint32) error {
	if calls == nil {
		return nil
	}
	const (
		allow = 0x7fff0000 // SECCOMP_RET_ALLOW
		errno = 0x00050000 // SECCOMP_RET_ERRNO
	)
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}} // the call's number
	for _, call := range calls {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1},
			bpf.RetConstant{Val: errno | uint32(unix.EPERM)})
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: allow}))
	if err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}

// OneLine ends the test unless xdpcap printed one line and failed. The line must contain all the
// words.
func OneLine(t *testing.T, status int, stderr string, words ...string) {
	t.Helper()
	if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "xdpcap: ") {
		t.Errorf("exit status %d and not one line: %s", status, stderr)
	}
	for _, w := range words {
		if !strings.Contains(stderr, w) {
			t.Errorf("%q does not say %q", stderr, w)
		}
	}
}
