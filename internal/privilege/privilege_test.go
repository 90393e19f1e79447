package privilege

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// must ends the test if there is an error.
var must = testnet.Must

// inSandbox has, in the processes that the tests start, the sandbox that they enter, and toWrite,
// in the processes that those start, a file to write.
const (
	inSandbox = "PRIVILEGE_TEST_SANDBOX"
	toWrite   = "PRIVILEGE_TEST_WRITE"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(toWrite); path != "" {
		if os.WriteFile(path, nil, 0o600) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(inSandbox); text != "" {
		os.Exit(try(text))
	}
	os.Exit(m.Run())
}

// A trial is a sandbox, and the place where the process in it tries its rights.
type trial struct {
	Sandbox
	Place    string // has the directories inside and outside
	Ports    [2]int // of TCP, where somebody listens
	Abstract string // the name of an abstract socket, where somebody listens
}

// A finding is the result of a process in a sandbox.
type finding struct {
	Threads []string // the identities of all threads, each line once
	Allowed []string // which of the attempts succeeded
}

// try enters a sandbox and prints a finding.
func try(text string) int {
	var in trial
	err := json.Unmarshal([]byte(text), &in)
	holdThreads()
	if err == nil {
		err = in.Enter()
	}
	var out finding
	if err == nil {
		out.Threads, err = threads()
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	inside, outside := filepath.Join(in.Place, "inside"), filepath.Join(in.Place, "outside")
	write := func(path string) func() error {
		return func() error { return os.WriteFile(path, []byte("text"), 0o600) }
	}
	child := func(path string) func() error {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), toWrite+"="+path)
		return cmd.Run
	}
	for _, a := range []struct {
		name string
		do   func() error
	}{
		{"write inside", write(inside + "/new")},
		{"rename inside", func() error { return os.Rename(inside+"/new", inside+"/other") }},
		{"empty inside", write(inside + "/other")},
		{"change a mode inside", func() error { return os.Chmod(inside+"/other", 0o666) }},
		{"change a mode outside", func() error { return os.Chmod(outside+"/old", 0o666) }},
		{"change an owner", func() error { return os.Chown(inside+"/other", -1, os.Getgid()) }},
		{"change times", func() error { return os.Chtimes(inside+"/other", time.Now(), time.Now()) }},
		{"truncate by name", func() error { return os.Truncate(inside+"/other", 1) }},
		{"link inside", func() error { return os.Link(inside+"/other", inside+"/second") }},
		{"make a directory inside", func() error { return os.Mkdir(inside+"/below", 0o700) }},
		{"remove inside", func() error { return os.Remove(inside + "/other") }},
		{"write outside", write(outside + "/new")},
		{"overwrite outside", write(outside + "/old")},
		{"rename outside", func() error { return os.Rename(outside+"/old", outside+"/older") }},
		{"read inside", func() error { _, err := os.ReadFile(inside + "/kept"); return err }},
		{"read outside", func() error { _, err := os.ReadFile(outside + "/old"); return err }},
		{"read what is readable", func() error { _, err := os.ReadFile("/proc/self/status"); return err }},
		{"list a directory outside", func() error { _, err := os.ReadDir(outside); return err }},
		{"listen", func() error { return listenTCP() }},
		{"connect to a port of the sandbox", connectTo(in.Ports[0])},
		{"connect to another port", connectTo(in.Ports[1])},
		{"connect to an abstract socket", func() error { return connectAbstract(in.Abstract) }},
		{"make a Unix socket", func() error { return makeSocket(unix.AF_UNIX, unix.SOCK_DGRAM) }},
		{"make a socket of UDP", func() error { return makeSocket(unix.AF_INET, unix.SOCK_DGRAM) }},
		{"signal the parent", func() error { return unix.Kill(unix.Getppid(), 0) }},
		{"ask for the parent's limits", func() error { return unix.Prlimit(unix.Getppid(), unix.RLIMIT_CPU, nil, new(unix.Rlimit)) }},
		{"have memory for code", func() error {
			_, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
			return err
		}},
		{"signal itself", func() error { return unix.Kill(unix.Getpid(), 0) }},
		{"write the null device", write(os.DevNull)},
		{"child inside", child(inside + "/child")},
		{"child outside", child(outside + "/child")},
		{"read with root's rights", func() error { _, err := os.ReadFile(in.Place + "/secret"); return err }},
		{"become root", func() error { return unix.Setuid(0) }},
	} {
		if a.do() == nil {
			out.Allowed = append(out.Allowed, a.name)
		}
	}
	json.NewEncoder(os.Stdout).Encode(out)
	return 0
}

func makeSocket(family, kind int) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// listenTCP binds a port by plain TCP. Go uses MPTCP by default, which Landlock does not support.
func listenTCP() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}

func connectTo(port int) func() error {
	return func() error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func connectAbstract(name string) error {
	conn, err := net.Dial("unix", "@"+name)
	if err != nil {
		return err
	}
	return conn.Close()
}

// holdThreads makes four threads besides the caller's. They are there until release is called.
func holdThreads() (release func()) {
	var held sync.WaitGroup
	hold := make(chan struct{})
	for range 4 {
		held.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			held.Done()
			<-hold
		}()
	}
	held.Wait()
	return func() { close(hold) }
}

// threads returns the threads' identities from /proc, each distinct line once.
func threads() (lines []string, err error) {
	files, _ := filepath.Glob("/proc/self/task/*/status")
	if len(files) < 5 {
		return nil, errors.New("there are no other threads")
	}
	for _, file := range files {
		own, err := threadIdentity(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, own...)
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

func threadIdentity(status string) ([]string, error) {
	text, err := os.ReadFile(status)
	return identityLines(string(text)), err
}

// identityLines returns the lines of a /proc/PID/status with its identity and rights.
func identityLines(status string) (lines []string) {
	for line := range strings.Lines(status) {
		name, _, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"}, name) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return lines
}

// place makes the directories of a trial, which belong to a user.
func place(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "privilege") // where others than root may go
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, errors.Join(
		os.Chmod(dir, 0o755),
		os.Mkdir(dir+"/inside", 0o700), os.Mkdir(dir+"/outside", 0o700),
		os.WriteFile(dir+"/outside/old", nil, 0o600), os.WriteFile(dir+"/inside/kept", nil, 0o600),
		os.WriteFile(dir+"/secret", nil, 0),
		os.Chown(dir+"/inside", uid, uid), os.Chown(dir+"/outside", uid, uid), os.Chown(dir+"/outside/old", uid, uid), os.Chown(dir+"/inside/kept", uid, uid),
		os.Chown(dir+"/secret", 1, 1),
	))
	return dir
}

const nobody = 65534

// All threads lose every right that the sandbox does not have, and so do the processes that they
// start.
func TestEnter(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	if LandlockABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	const none, netAdmin = "0000000000000000", "0000000000001000"
	sets := func(permitted string) []string {
		return []string{"CapAmb: " + none, "CapBnd: " + none, "CapEff: " + permitted, "CapInh: " + none, "CapPrm: " + permitted}
	}
	identity := func(permitted string, uid, groups string) []string {
		four := strings.Join([]string{uid, uid, uid, uid}, " ")
		lines := append(sets(permitted), "Gid: "+four, "Groups:"+groups, "NoNewPrivs: 1", "Uid: "+four)
		slices.Sort(lines)
		return lines
	}
	within := []string{"write inside", "rename inside", "empty inside", "remove inside",
		"read inside", "read what is readable", "connect to a port of the sandbox", "signal itself"}
	// The further rights of a process with programs, and of a process in a kernel whose Landlock
	// does not support them: 6.1 has no networks.
	networks := []string{"listen", "connect to another port"}
	programs := slices.Concat([]string{"read outside", "list a directory outside", "child inside", "write the null device",
		"change a mode inside", "change a mode outside", "change an owner", "change times", "truncate by name", "link inside", "make a directory inside",
		"connect to an abstract socket", "make a Unix socket", "make a socket of UDP", "signal the parent", "ask for the parent's limits", "have memory for code"}, networks)
	if LandlockABI() < 4 {
		within = append(within, networks...)
	}
	for _, test := range []struct {
		name string
		box  Sandbox
		uid  int // whose the directories are
		want []string
		more []string
	}{
		{"root without rights", Sandbox{}, 0, identity(none, "0", ""), nil},
		{"another user", Sandbox{User: &User{Name: "nobody", UID: nobody, GID: nobody, Groups: []int{nobody, 7}}}, nobody,
			identity(none, "65534", " 7 65534"), nil},
		{"one capability of another user", Sandbox{User: &User{Name: "nobody", UID: nobody, GID: nobody}, Keep: []int{unix.CAP_NET_ADMIN}}, nobody,
			identity(netAdmin, "65534", ""), nil},
		{"one capability", Sandbox{Keep: []int{unix.CAP_NET_ADMIN}}, 0, identity(netAdmin, "0", ""), nil},
		{"with programs", Sandbox{Programs: true}, 0, identity(none, "0", ""), append(programs, "become root")},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := trial{Sandbox: test.box, Place: place(t, test.uid), Abstract: fmt.Sprintf("privilege-test-%d", os.Getpid())}
			in.Writable, in.Readable = []string{in.Place + "/inside"}, []string{"/proc", "/nosuch"}
			for i := range in.Ports {
				in.Ports[i] = listener(t, "tcp", "127.0.0.1:0").(*net.TCPAddr).Port
			}
			listener(t, "unix", "@"+in.Abstract)
			in.Connect = []uint16{uint16(in.Ports[0])}
			in.Work = []Work{Files, BPF, Streams} // with which the attempts fail by Landlock
			got, want := runTrial(t, in), slices.Concat(within, test.more)
			slices.Sort(want)
			slices.Sort(got.Allowed)
			if diff := cmp.Diff(finding{test.want, slices.Compact(want)}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// listener accepts connections until the test ends.
func listener(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr()
}

func runTrial(t *testing.T, in trial) (out finding) {
	t.Helper()
	text, err := json.Marshal(in)
	must(t, err)
	var stderr strings.Builder
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), inSandbox+"="+string(text))
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	must(t, json.Unmarshal(printed, &out))
	return out
}
