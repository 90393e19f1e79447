package attach

import (
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Sockets runs a program of the type CGroupSKB for packets that sockets receive: the sockets of all
// cgroups that this process can see. Like TC, it runs the program beside those of others. The
// program chooses the interface's packets by itself.
func Sockets(ifi xdp.Interface, prog *ebpf.Program) (*Attachment, error) {
	root, err := rootOfCgroups()
	if err != nil {
		return nil, err
	}
	return open(ifi, prog, func(a *Attachment) error {
		l, err := link.AttachRawLink(link.RawLinkOptions{Target: int(root.Fd()), Program: prog, Attach: ebpf.AttachCGroupInetIngress})
		if err != nil {
			return support.ExplainLoad("attach to the root of the cgroups", err)
		}
		a.links = append(a.links, l)
		return nil
	})
}

// rootOfCgroups stays open after the first call: later, this process may not be allowed to find it.
var rootOfCgroups = sync.OnceValues(func() (*os.File, error) {
	if root, ok := machine.RootCgroup(); ok {
		if f, err := os.Open(root); err == nil {
			return f, nil
		}
	}
	f, err := mountCgroups()
	if err != nil {
		return nil, fmt.Errorf("mount the cgroups of version 2: %w", err)
	}
	return f, nil
})

// mountCgroups mounts the cgroups of version 2 in no directory. They exist even if they are not
// mounted elsewhere. It needs CAP_SYS_ADMIN.
func mountCgroups() (*os.File, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, err
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(mount), "cgroup2"), nil
}
