package attach

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type refusal refusals ../../bpf/refusals.c

// attachOnceMore repeats an attempt that the kernel has refused, to record the message with which
// the kernel or the driver refuses it. It returns the link if the second attempt succeeds.
// Otherwise the error has the error number of the first attempt and the message. It lacks the
// message on kernels before 6.6, or if this process may not trace.
func attachOnceMore(refused error, attach func() (link.Link, error)) (link.Link, error) {
	var errno unix.Errno
	if !errors.As(refused, &errno) {
		return nil, refused
	}
	runtime.LockOSThread() // the listener records messages to this thread only
	defer runtime.UnlockOSThread()
	listener, err := openListener()
	if err != nil {
		return nil, errno
	}
	defer listener.close()
	l, err := attach()
	if err == nil {
		return l, nil
	}
	message := listener.message()
	if message == "" || !errors.Is(err, errno) {
		return nil, errno
	}
	return nil, fmt.Errorf("%w: %s", errno, message)
}

// A listener records the messages to the thread that has opened it, by bpf/refusals.c.
type listener struct {
	objects struct {
		Program *ebpf.Program `ebpf:"xdpcap_refused"`
		Words   *ebpf.Map     `ebpf:"words"`
	}
	link link.Link
}

func openListener() (*listener, error) {
	spec, err := refusalsHere(refusalsVarThread, unix.Gettid())
	if err != nil {
		return nil, err
	}
	l := &listener{}
	if err := spec.LoadAndAssign(&l.objects, &ebpf.CollectionOptions{Cache: xdp.KernelTypes()}); err != nil {
		return nil, err
	}
	l.link, err = link.AttachRawTracepoint(link.RawTracepointOptions{
		Name:    "bpf_xdp_link_attach_failed",
		Program: l.objects.Program,
	})
	if err != nil {
		l.closeObjects()
		return nil, err
	}
	return l, nil
}

// message returns the message of the last refusal, or "".
func (l *listener) message() string {
	var text []byte
	if err := l.objects.Words.Lookup(uint32(0), &text); err != nil {
		return ""
	}
	return unix.ByteSliceToString(text)
}

func (l *listener) close() {
	l.link.Close()
	l.closeObjects()
}

func (l *listener) closeObjects() {
	l.objects.Program.Close()
	l.objects.Words.Close()
}

// refusalsHere returns the programs of bpf/refusals.c for this process or one of its threads.
// variable is the constant that selects it, by its id in this process's PID namespace, which may be
// that of a container.
func refusalsHere(variable string, id int) (*ebpf.CollectionSpec, error) {
	spec, err := loadRefusals()
	if err != nil {
		return nil, err
	}
	namespace, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	file := namespace.Sys().(*syscall.Stat_t)
	return spec, Set(spec, map[string]any{
		refusalsVarNamespaceDevice: file.Dev,
		refusalsVarNamespaceInode:  file.Ino,
		variable:                   uint32(id),
	})
}
