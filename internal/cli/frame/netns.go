package frame

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// NetnsFlag is --netns, the network namespace in which a command works.
func NetnsFlag() Flag {
	return Flag{Name: "netns", Value: new(oneNetns), Settings: Powerful, Rivals: []string{"pod"},
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
	p.where = fmt.Sprintf(" --%s %s", flag.Name, escape.ShellWord(flag.Value.String()))
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
