package frame

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/pods"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// NetnsFlag is --netns, the network namespace in which a command works.
func NetnsFlag() Flag {
	return Flag{Name: "netns", Value: new(oneNetns), Settings: GrantsRights, Rivals: []string{"pod"},
		Help: "work in this network `namespace`: a name from ip netns, a process id, or a path; needs CAP_SYS_ADMIN"}
}

// oneNetns is the value of --netns.
type oneNetns struct{ Name }

func (n *oneNetns) Set(text string) error {
	if n.Name != "" && string(n.Name) != text { // completion sets it twice
		return errors.New("is one too many: a command works in one network namespace")
	}
	return n.Name.Set(text)
}

// EnterNetns makes the whole process work in the network namespace of --netns or --pod, if one is
// given. setns(2) moves only one thread, and goroutines run on any. So that thread executes the
// program again: execve(2) ends all other threads, and the second call of EnterNetns, in the new
// program, finds the process in the namespace already. The mount namespace stays the caller's:
// files are opened there. It is called before anything else is opened or attached.
func (p *Process) EnterNetns(f *pflag.FlagSet) error {
	flag, open := f.Lookup("netns"), openNetns
	if pod := f.Lookup("pod"); pod != nil && pod.Changed {
		if flag.Changed {
			return errors.New("--netns and --pod: choose one: each says in which network namespace to work")
		}
		flag, open = pod, openPod
	}
	if flag == nil || !flag.Changed {
		return nil
	}
	if other := usesNetwork(f); other != "" {
		if err := ForOwnRights(fmt.Sprintf("--%s and %s", flag.Name, other)); err != nil {
			return err
		}
	}
	p.where = fmt.Sprintf(" --%s %s", flag.Name, message.ShellWord(flag.Value.String()))
	if err := p.enter(flag.Value.String(), open); err != nil {
		return fmt.Errorf("--%s %s: %w", flag.Name, flag.Value, err)
	}
	return nil
}

// usesNetwork returns the first flag that listens in a namespace, connects from it, or runs a
// command there; "" = no flag does. A binary with capabilities may enter namespaces that its caller
// may not enter, so it must only capture there.
func usesNetwork(f *pflag.FlagSet) string {
	if f.Changed("postrotate-command") {
		return "-z"
	}
	for _, name := range []string{"serve", "listen"} {
		if flag := f.Lookup(name); flag != nil && flag.Changed {
			if _, local := SocketPath(flag.Value.String()); !local {
				return "--" + name
			}
		}
	}
	if write := f.Lookup("write"); write != nil {
		for _, text := range write.Value.(pflag.SliceValue).GetSlice() {
			if scheme, _, isURL := strings.Cut(text, "://"); isURL {
				return "-w " + scheme + "://"
			}
		}
	}
	return ""
}

// IsElsewhere reports whether --netns or --pod was given.
func (p *Process) IsElsewhere() bool { return p.where != "" }

// ListInterfaces is the command that lists the interfaces which this process can name.
func (p *Process) ListInterfaces() string { return "xdpcap interfaces" + p.where }

// enter enters the namespace that open returns for a name.
func (p *Process) enter(name string, open func(name string) (netns.NsHandle, error)) error {
	target, err := open(name)
	if err != nil {
		return err
	}
	defer target.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open this process's own namespace: %w", err)
	}
	defer own.Close()
	if own.Equal(target) {
		p.importHome()
		return nil
	}
	switch err := netns.Set(target); {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("enter it: %w: this needs CAP_SYS_ADMIN", err)
	case errors.Is(err, unix.EINVAL):
		return errors.New("this is no network namespace")
	case err != nil:
		return fmt.Errorf("enter it: %w", err)
	}
	if err := exportHome(own); err != nil {
		return err
	}
	return fmt.Errorf("start again in it: %w", p.executeAgain())
}

// openNetns opens a namespace by its name, the id of a process in it, or its path. As with ip(8), a
// name has precedence over a process id.
func openNetns(name string) (netns.NsHandle, error) {
	if strings.Contains(name, "/") {
		return netns.GetFromPath(name)
	}
	ns, err := netns.GetFromName(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return ns, err
	}
	pid, err := strconv.Atoi(name)
	if err != nil || pid < 1 {
		return ns, errors.New("there is no namespace of this name: see ip netns, or give a process id or a path")
	}
	ns, err = netns.GetFromPid(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ns, errors.New("there is no process with this id, and no namespace of this name")
	case errors.Is(err, fs.ErrPermission):
		return ns, fmt.Errorf("look at the process: %w: this needs CAP_SYS_PTRACE", err)
	}
	return ns, err
}

// executeAgain replaces the process by a new one with the same program and arguments. It returns
// only if that fails. A signal to end kills the process from here on, which harms nothing, because
// no program is attached yet.
func (p *Process) executeAgain() error {
	p.letSignalsKill()
	path, err := ownPath(privilege.SecureExecution())
	if err == nil {
		err = unix.Exec(path, os.Args, os.Environ())
	}
	unix.Exec(ownContents, os.Args, os.Environ()) // possible even if the path cannot be reached
	return err
}

// ownContents opens the program itself, even if its path leads to another file by now. It is not
// the first choice, because tools show "exe" as the name of a process that was started by it.
const ownContents = "/proc/self/exe"

// ownPath returns the path of the program. If the binary has capabilities that its caller lacks
// (secure), that is ownContents, because the caller may have put another file at the binary's name.
func ownPath(secure bool) (string, error) {
	if secure {
		return ownContents, nil
	}
	return os.Executable()
}

// PodFlag is --pod, the pod in which a command works. without is the part of its help about a
// command line without -i.
func (p *Process) PodFlag(without string) Flag {
	return Flag{Name: "pod", Value: new(Name), Complete: p.completePod, Settings: GrantsRights, Rivals: []string{"netns"},
		Help: "work in the network namespace of this Kubernetes `pod` of this host: NAMESPACE/NAME" + without + "; needs CAP_SYS_ADMIN"}
}

// openPod opens the network namespace of a pod.
func openPod(name string) (netns.NsHandle, error) {
	var pod pods.Pod
	err := privilege.WithFileRights(func() (err error) {
		pod, err = pods.Find(name)
		return err
	})
	if err != nil {
		return netns.None(), err
	}
	return netns.GetFromPath(pod.Netns)
}

// readPods lists the pods of this host.
func readPods() (all []pods.Pod, err error) {
	err = privilege.WithFileRights(func() (err error) {
		all, err = pods.Read()
		return err
	})
	return all, err
}

// completePod offers the pods of this host that have a network namespace of their own.
func (p *Process) completePod(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	all, _ := readPods()
	for _, pod := range all {
		if pod.Netns != "" {
			names = append(names, pod.String())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Pods returns the interfaces and addresses that belong to the pods of this host; nil if no pods
// run. It reads files, so it is called before the sandbox is entered. If the process has left
// the host's namespace, only the first call can find its interfaces, because it closes p.home.
func (p *Process) Pods() (*pods.Owners, error) {
	if p.home != nil {
		defer func() {
			p.home.Close()
			p.home = nil
		}()
	}
	all, unread := readPods()
	if all == nil {
		return nil, unread
	}
	owners, err := pods.FindOwners(all, p.home)
	if err == nil {
		err = unread
	}
	return owners, err
}

// PodNamespaces returns the names of the pods of this host by the inodes of their network
// namespaces, as of now. It reads files, so it is called before the sandbox is entered.
func PodNamespaces() map[uint32]string {
	names := make(map[uint32]string)
	all, _ := readPods() // after an error namespaces only have numbers
	for _, pod := range all {
		var info unix.Stat_t
		if pod.Netns != "" && unix.Stat(pod.Netns, &info) == nil {
			names[uint32(info.Ino)] = pod.String()
		}
	}
	return names
}

// homeVariable has the number of an open file: the network namespace in which this process was
// before it executed itself again in another one. All pods of the host are visible from there.
const homeVariable = "XDPCAP_HOME_NETNS"

// exportHome keeps a network namespace open across the next execve(2), and sets homeVariable to it.
func exportHome(home netns.NsHandle) error {
	if _, err := unix.FcntlInt(uintptr(home), unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("keep this process's own namespace open: %w", err)
	}
	return os.Setenv(homeVariable, strconv.Itoa(int(home)))
}

// importHome takes over the namespace that exportHome has kept open. A binary with capabilities
// that its caller lacks ignores the environment.
func (p *Process) importHome() {
	fd, err := strconv.Atoi(os.Getenv(homeVariable))
	os.Unsetenv(homeVariable)
	var s unix.Statfs_t
	if err != nil || privilege.SecureExecution() || unix.Fstatfs(fd, &s) != nil || s.Type != unix.NSFS_MAGIC {
		return
	}
	unix.CloseOnExec(fd)
	p.home = os.NewFile(uintptr(fd), "the network namespace that this process has left")
}
