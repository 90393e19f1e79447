package frame

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/pods"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// PodFlag is --pod, the pod in which a command works. without is the part of its help about a
// command line without -i.
func (p *Process) PodFlag(without string) Flag {
	return Flag{Name: "pod", Value: new(Name), Complete: p.completePod, Settings: Powerful, Rivals: []string{"netns"},
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
// run. It reads files, so it is called before the sandbox is entered. Only its first call knows the
// interfaces of a process in another namespace.
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
