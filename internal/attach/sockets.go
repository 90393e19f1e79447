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
// cgroups that are visible to this process. Programs of others at the cgroups go on running. The
// program selects the interface's packets.
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

// rootOfCgroups opens the root once and keeps it open: later, this process may have no right to
// open it.
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

// mountCgroups returns a mount of the cgroups of version 2 that is in no directory, for machines
// where they are not mounted. It needs CAP_SYS_ADMIN.
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
