package privilege

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The table of system calls is one for each architecture of the packages, every name exists on at
// least one of them, and no name occurs twice.
func TestCalls(t *testing.T) {
	t.Parallel()
	works := []Work{Files, BPF, Tracing, Accepting, Streams, Datagrams}
	for _, architecture := range []string{"amd64", "arm64"} {
		for _, work := range append([][]Work{nil, works}, []Work{Files, BPF}, []Work{BPF, Tracing, Accepting}) {
			policy, err := policyOf(work, architecture)
			must(t, err)
			if policy.DefaultAction != seccomp.ActionErrno {
				t.Errorf("%s: anything else is answered by %v", architecture, policy.DefaultAction)
			}
			if architecture != runtime.GOARCH {
				continue // assembled on such a machine alone
			}
			if _, err := policy.Assemble(); err != nil {
				t.Errorf("%v: %v", work, err)
			}
		}
	}
	lists := [][]string{runtimeCalls}
	for _, w := range works {
		lists = append(lists, calls[w])
	}
	lists = append(lists, nil)
	for _, c := range limitedCalls() {
		lists[len(lists)-1] = append(lists[len(lists)-1], c.Name)
	}
	for i, list := range lists {
		for at, name := range list {
			_, amd := arch.X86_64.SyscallNames[name]
			_, arm := arch.AARCH64.SyscallNames[name]
			switch {
			case !amd && !arm:
				t.Errorf("there is no system call %s", name)
			case slices.Contains(list[:at], name):
				t.Errorf("%s is there twice", name)
			case i > 0 && slices.Contains(runtimeCalls, name):
				t.Errorf("%s is among those of every program", name)
			}
		}
	}
	for _, dangerous := range []string{"execve", "execveat", "ptrace", "fork", "vfork", "setuid", "mount", "unshare", "setns", "init_module",
		"keyctl", "io_uring_setup", "userfaultfd", "process_vm_writev", "kexec_load", "capset", "listen",
		"fchmod", "fchmodat", "fchmodat2", "chmod", "fchown", "fchownat", "chown", "lchown", "utimensat", "utimes", "truncate", "setxattr", "fsetxattr",
		"link", "linkat", "symlinkat", "mknodat", "mkdirat", "chdir", "chroot", "umask", "setpriority", "setrlimit", "pkey_mprotect", "personality", "pidfd_send_signal"} {
		for _, list := range lists {
			if slices.Contains(list, dangerous) {
				t.Errorf("%s is allowed", dangerous)
			}
		}
	}
}

// A limited call is permitted or refused by its arguments: a new thread is permitted and a new
// process is not, nor a socket of another work, a signal to another process, executable memory, or
// input for the terminal. The kernel ignores the upper half of some arguments, so both halves are
// tried.
func TestCallArguments(t *testing.T) {
	t.Parallel()
	here, err := arch.GetInfo("")
	must(t, err)
	const (
		yes, no = seccomp.ActionAllow, seccomp.ActionErrno
		upper   = 1 << 32
		flags   = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	)
	all := []Work{Files, BPF, Tracing, Accepting, Streams, Datagrams}
	own, parent := uint64(os.Getpid()), uint64(os.Getppid())
	type args = []uint64
	for _, test := range []struct {
		call      string
		arguments args
		work      []Work
		want      seccomp.Action
	}{
		{"clone", args{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, nil, yes},
		{"clone", args{uint64(unix.SIGCHLD)}, all, no},
		{"clone3", args{0}, all, no | seccomp.Action(unix.ENOSYS)},
		{"socket", args{unix.AF_UNIX, unix.SOCK_DGRAM | flags, 0}, all, no},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW | flags, unix.NETLINK_ROUTE}, nil, no},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW | flags, unix.NETLINK_ROUTE}, []Work{BPF}, yes},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW | flags, unix.NETLINK_NETFILTER}, all, no},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM | flags, 0}, []Work{Files, BPF, Tracing, Accepting, Datagrams}, no},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM | flags, 0}, []Work{Streams}, yes},
		{"socket", args{unix.AF_INET6, unix.SOCK_STREAM | flags, unix.IPPROTO_TCP}, []Work{Streams}, yes},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, all, no},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, all, no},
		{"socket", args{unix.AF_INET, unix.SOCK_DGRAM | flags, 0}, []Work{Files, BPF, Tracing, Accepting, Streams}, no},
		{"socket", args{unix.AF_INET6, unix.SOCK_DGRAM | flags, 0}, []Work{Datagrams}, yes},
		{"socket", args{unix.AF_INET, unix.SOCK_DGRAM | flags, unix.IPPROTO_ICMP}, all, no},
		{"socket", args{unix.AF_INET, unix.SOCK_RAW, 0}, all, no},
		{"socket", args{unix.AF_INET, unix.SOCK_RAW | upper, 0}, all, no},
		{"socket", args{unix.AF_PACKET, unix.SOCK_RAW, 0}, all, no},
		{"setfsuid", args{^uint64(0)}, nil, no},
		{"setfsuid", args{^uint64(0)}, []Work{Files}, yes},
		{"setfsuid", args{0}, all, no},
		{"openat", args{0}, nil, no},
		{"openat", args{0}, []Work{Files}, yes},
		{"ioctl", args{0, unix.SIOCETHTOOL}, nil, yes},
		{"ioctl", args{0, unix.TIOCSTI}, all, no},
		{"ioctl", args{0, unix.TIOCSTI | upper}, all, no},
		{"ioctl", args{0, unix.TIOCLINUX}, all, no},
		{"ioctl", args{0, unix.SIOCSPGRP}, all, no},
		{"fcntl", args{0, unix.F_GETFL}, nil, yes},
		{"fcntl", args{0, unix.F_SETOWN}, all, no},
		{"fcntl", args{0, unix.F_SETSIG | upper}, all, no},
		{"prlimit64", args{0, unix.RLIMIT_NOFILE}, nil, yes},
		{"prlimit64", args{parent, unix.RLIMIT_CPU}, all, no},
		{"sched_setaffinity", args{0}, nil, yes},
		{"sched_setaffinity", args{parent}, all, no},
		{"kill", args{own, uint64(unix.SIGTERM)}, nil, yes},
		{"kill", args{parent, 0}, all, no},
		{"kill", args{^uint64(0), uint64(unix.SIGKILL)}, all, no},
		{"tgkill", args{own, own, uint64(unix.SIGURG)}, nil, yes},
		{"tgkill", args{parent, parent, 0}, all, no},
		{"mmap", args{0, 4096, unix.PROT_READ | unix.PROT_WRITE}, nil, yes},
		{"mmap", args{0, 4096, unix.PROT_READ | unix.PROT_EXEC}, all, no},
		{"mprotect", args{0, 4096, unix.PROT_READ}, nil, yes},
		{"mprotect", args{0, 4096, unix.PROT_EXEC}, all, no},
	} {
		policy, err := policyOf(test.work, "")
		must(t, err)
		program, err := policy.Assemble()
		must(t, err)
		vm, err := bpf.NewVM(program)
		must(t, err)
		var data [64]byte // struct seccomp_data; the VM reads its words as the network orders them
		put := func(at int, word uint64) { binary.BigEndian.PutUint32(data[at:], uint32(word)) }
		put(0, uint64(here.SyscallNames[test.call]))
		put(4, uint64(here.ID))
		for i, value := range test.arguments {
			put(16+8*i, value)
			put(16+8*i+4, value>>32)
		}
		got, err := vm.Run(data[:])
		must(t, err)
		if test.want == no {
			got &^= 0xffff // whichever
		}
		if seccomp.Action(got) != test.want {
			t.Errorf("%s(%#x) of a process that does %v: %#x, want %#x", test.call, test.arguments, test.work, got, uint32(test.want))
		}
	}
}
