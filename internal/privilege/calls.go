package privilege

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// A Work is a task of the process that needs certain system calls.
type Work int

const (
	Files     Work = iota // opens, makes, renames and removes files
	BPF                   // reads maps, programs and links, and looks up interfaces by netlink
	Tracing               // opens perf events
	Accepting             // accepts connections on sockets that already listen
	Streams               // makes connections by TCP
	Datagrams             // sends by UDP, and looks up names
)

// calls are the system calls that each Work needs in addition to runtimeCalls. They were found by
// strace of the commands, and by tests that run with a filter which ends the process at any other
// call. Go's library has several calls for the same purpose and chooses among them. No Work changes
// a file's owner, mode or times, since Landlock cannot limit that to the files of the sandbox.
var calls = map[Work][]string{
	Files: {
		"openat", "openat2", "open", "newfstatat", "fstatat", "stat", "lstat", "statx", "statfs", "readlinkat", "readlink",
		"faccessat", "faccessat2", "access", "getdents64", "getcwd",
		"unlinkat", "unlink", "renameat", "renameat2", "rename", "fallocate", "sync_file_range", "syncfs",
	},
	BPF:       {"bpf", "openat", "newfstatat", "fstatat", "readlinkat", "statfs", "getdents64", "bind", "sendmsg", "recvmsg"},
	Tracing:   {"perf_event_open"},
	Accepting: {"accept4", "accept"},
	Streams:   {"connect", "bind", "sendmsg", "recvmsg"},
	Datagrams: {"connect", "bind", "sendmsg", "sendmmsg", "recvmsg", "openat", "newfstatat", "fstatat", "statx", "readlinkat"},
}

// runtimeCalls are the calls that every Go program makes, and those on open files.
var runtimeCalls = []string{
	"read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "close", "close_range", "dup", "dup3", "fstat", "fstatfs",
	"ftruncate", "fsync", "fdatasync", "flock", "copy_file_range", "sendfile", "splice", "fadvise64", "pipe2",
	"shutdown", "recvfrom", "sendto", "getsockopt", "setsockopt", "getsockname", "getpeername",
	"mremap", "munmap", "madvise", "mincore", "brk", "membarrier",
	"futex", "sched_yield", "sched_getaffinity", "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres",
	"gettimeofday", "time", "clock_adjtime",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "poll", "ppoll", "pselect6", "select",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack", "restart_syscall", "setitimer", "timer_create", "timer_settime", "timer_delete",
	"getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getrlimit", "getrusage", "sysinfo", "uname", "getcpu",
	"getrandom", "prctl", "arch_prctl", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "exit", "exit_group", "capget",
}

// limitedCalls are further calls that every Go program makes, with conditions on their arguments:
// they make threads but no processes, map no memory from which code could be executed, do not
// change or signal other processes, and put no input into the terminal's queue. A filter cannot
// read the flags of clone3, and callers of clone3 fall back to clone if it is missing.
func limitedCalls() []seccomp.NameWithConditions {
	self := uint64(os.Getpid())
	return []seccomp.NameWithConditions{
		limit("clone", argument(0, seccomp.BitsSet, unix.CLONE_THREAD)),
		limit("mmap", argument(2, seccomp.BitsNotSet, unix.PROT_EXEC)),
		limit("mprotect", argument(2, seccomp.BitsNotSet, unix.PROT_EXEC)),
		limit("prlimit64", argument(0, seccomp.Equal, 0)),
		limit("sched_setaffinity", argument(0, seccomp.Equal, 0)),
		limit("kill", argument(0, seccomp.Equal, self)),
		limit("tgkill", argument(0, seccomp.Equal, self)),
		limit("ioctl", noneOf(unix.TIOCSTI, unix.TIOCLINUX, fioSetOwn, unix.SIOCSPGRP)...),
		limit("fcntl", noneOf(unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG)...),
	}
}

// fioSetOwn is FIOSETOWN of <asm/sockios.h>, which package unix lacks.
const fioSetOwn = 0x8901

// The bits that a type of sockets does not have, without the flags that may be added to any type.
const (
	anyType   = 0
	notStream = ^uint64(unix.SOCK_STREAM) & 0xf
	notDgram  = ^uint64(unix.SOCK_DGRAM) & 0xf
)

// A socketKind is a kind of socket that a Work makes. Its type has none of the bits in notType.
type socketKind struct{ family, notType, protocol uint64 }

// Netlink sockets look up interfaces, and read the kernel's drop counters; claims are how captures
// share an interface (internal/tc). Landlock limits the ports of TCP, but not those of MPTCP or
// SCTP.
var (
	routing   = socketKind{unix.AF_NETLINK, anyType, unix.NETLINK_ROUTE}
	generic   = socketKind{unix.AF_NETLINK, anyType, unix.NETLINK_GENERIC}
	diagnosis = socketKind{unix.AF_NETLINK, anyType, unix.NETLINK_SOCK_DIAG}
	claims    = socketKind{unix.AF_NETLINK, anyType, unix.NETLINK_USERSOCK}
	streams   = []socketKind{{unix.AF_INET, notStream, 0}, {unix.AF_INET, notStream, unix.IPPROTO_TCP}, {unix.AF_INET6, notStream, 0}, {unix.AF_INET6, notStream, unix.IPPROTO_TCP}}
	datagrams = []socketKind{{unix.AF_INET, notDgram, 0}, {unix.AF_INET, notDgram, unix.IPPROTO_UDP}, {unix.AF_INET6, notDgram, 0}, {unix.AF_INET6, notDgram, unix.IPPROTO_UDP}}

	sockets = map[Work][]socketKind{
		BPF:       {routing, generic, diagnosis, claims},
		Streams:   append(streams, routing),
		Datagrams: append(datagrams, routing),
	}
)

// errNoSeccomp is the kind of error for a machine on which system calls cannot be filtered.
var errNoSeccomp = errors.New("this kernel or container has no filters of system calls")

// filter restricts all threads, for good, to the system calls of the work. Any other call fails
// with EPERM, or ends the process if strict is set.
func filter(work []Work, strict bool) error {
	policy, err := policyOf(work, "")
	if err != nil {
		return err
	}
	if strict {
		policy.DefaultAction = seccomp.ActionKillProcess
	}
	if !seccomp.Supported() {
		return errNoSeccomp
	}
	if err := seccomp.LoadFilter(seccomp.Filter{Flag: seccomp.FilterFlagTSync, Policy: *policy}); err != nil {
		return fmt.Errorf("%w: %w", errNoSeccomp, err)
	}
	filters.Add(1)
	return nil
}

// filters counts the filters that this process has loaded.
var filters atomic.Int32

// Filters returns the number of system call filters that this process has loaded. They permit
// everything that it does, so an error of the kernel cannot come from one of them.
func Filters() int { return int(filters.Load()) }

// policyOf returns the filter of this process for an architecture; "" = this one. It skips calls
// that an architecture does not have: arm64 has openat but no open.
func policyOf(work []Work, architecture string) (*seccomp.Policy, error) {
	info, err := arch.GetInfo(architecture)
	if err != nil {
		return nil, err
	}
	allowed, limited := slices.Clone(runtimeCalls), limitedCalls()
	for _, w := range slices.Compact(slices.Sorted(slices.Values(work))) {
		allowed = append(allowed, calls[w]...)
		for _, s := range sockets[w] {
			limited = append(limited, limit("socket",
				argument(0, seccomp.Equal, s.family), argument(1, seccomp.BitsNotSet, s.notType), argument(2, seccomp.Equal, s.protocol)))
		}
	}
	slices.Sort(allowed)
	allowed = slices.DeleteFunc(slices.Compact(allowed), func(name string) bool {
		_, isKnown := info.SyscallNames[name]
		return !isKnown
	})
	if slices.Contains(work, Files) {
		// Returns the user whose rights apply when a file is opened; -1 changes no id.
		limited = append(limited, limit("setfsuid", argument(0, seccomp.Equal, ^uint64(0))))
	}
	missing := seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	return &seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: allowed, NamesWithCondtions: limited},
		{Action: missing, Names: []string{"clone3"}},
	}}, nil
}

// limit permits a call if its arguments fulfil the conditions.
func limit(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: conditions}
}

// argument returns a condition on an argument, counted from 0.
func argument(number uint32, operation seccomp.Operation, value uint64) seccomp.Condition {
	return seccomp.Condition{Argument: number, Operation: operation, Value: value}
}

// noneOf returns conditions that exclude these requests as the second argument. The kernel ignores
// its upper half, so that must be zero.
func noneOf(requests ...uint64) []seccomp.Condition {
	all := []seccomp.Condition{argument(1, seccomp.LessOrEqual, math.MaxUint32)}
	for _, r := range requests {
		all = append(all, argument(1, seccomp.NotEqual, r))
	}
	return all
}
