package privilege

import (
	"errors"
	"fmt"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// A Work is something that a process goes on to do, for which it makes system calls.
type Work int

const (
	Files     Work = iota // opens, makes, renames and removes files
	BPF                   // looks at maps, programs and links, and asks netlink about interfaces
	Tracing               // opens perf events
	Accepting             // takes connections on sockets that listen already
	Sending               // makes connections by TCP and UDP, and looks up names
)

// calls is the table of the system calls that each Work takes besides the runtimeCalls. They were
// found by strace of the commands, and by tests, which run with a filter that ends the process at
// any other. Go's library has several calls for one thing: which one it makes is its own choice.
var calls = map[Work][]string{
	Files: {
		"openat", "openat2", "open", "newfstatat", "fstatat", "stat", "lstat", "statx", "statfs", "readlinkat", "readlink",
		"faccessat", "faccessat2", "access", "getdents64", "getcwd", "chdir",
		"mkdirat", "mkdir", "linkat", "unlinkat", "unlink", "renameat", "renameat2", "rename", "fchown", "fchownat", "fchmod", "fchmodat", "utimensat",
		"truncate", "fallocate", "sync_file_range", "syncfs", "umask",
	},
	BPF:       {"bpf", "openat", "newfstatat", "fstatat", "readlinkat", "statfs", "getdents64", "bind", "sendmsg", "recvmsg", "unlinkat"},
	Tracing:   {"perf_event_open"},
	Accepting: {"accept4", "accept"},
	Sending: {
		"connect", "bind", "sendmsg", "sendmmsg", "recvmsg", "openat", "newfstatat", "fstatat", "statx", "readlinkat",
	},
}

// runtimeCalls are those that every Go program makes, and those on files that are open.
var runtimeCalls = []string{
	"read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "close", "close_range", "dup", "dup3", "fcntl", "ioctl", "fstat", "fstatfs",
	"ftruncate", "fsync", "fdatasync", "flock", "copy_file_range", "sendfile", "splice", "fadvise64", "pipe2",
	"shutdown", "recvfrom", "sendto", "getsockopt", "setsockopt", "getsockname", "getpeername",
	"mmap", "mremap", "munmap", "mprotect", "madvise", "mincore", "brk", "membarrier",
	"futex", "sched_yield", "sched_getaffinity", "sched_setaffinity", "setpriority", "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres",
	"gettimeofday", "time", "clock_adjtime",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "poll", "ppoll", "pselect6", "select",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack", "restart_syscall", "setitimer", "timer_create", "timer_settime", "timer_delete",
	"tgkill", "kill", "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getrlimit", "prlimit64", "getrusage", "sysinfo", "uname", "getcpu",
	"getrandom", "prctl", "arch_prctl", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "exit", "exit_group", "capget",
}

// families are the sockets that each Work makes.
var families = map[Work][]uint64{
	BPF:     {unix.AF_NETLINK, unix.AF_UNIX},
	Sending: {unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK},
}

// errNoSeccomp is the kind of error that there are no filters of system calls here.
var errNoSeccomp = errors.New("this kernel or container has no filters of system calls")

// filter lets the process make the system calls of its work alone, in all threads and for good. Any
// other fails with EPERM, or with strict ends the process.
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
	return nil
}

// policyOf is the filter on an architecture; "" = this one. A call that an architecture does not
// have is nothing there: arm64 has openat for open.
func policyOf(work []Work, architecture string) (*seccomp.Policy, error) {
	info, err := arch.GetInfo(architecture)
	if err != nil {
		return nil, err
	}
	allowed, sockets := slices.Clone(runtimeCalls), []uint64{}
	for _, w := range work {
		allowed = append(allowed, calls[w]...)
		sockets = append(sockets, families[w]...)
	}
	slices.Sort(allowed)
	allowed = slices.DeleteFunc(slices.Compact(allowed), func(name string) bool { _, known := info.SyscallNames[name]; return !known })
	// A thread, and never a process. What clone3 makes cannot be seen by a filter, and those who
	// use it make a thread by clone where it is missing.
	conditional := []seccomp.NameWithConditions{equal("clone", unix.CLONE_THREAD, seccomp.BitsSet)}
	for _, family := range sockets {
		conditional = append(conditional, equal("socket", family, seccomp.Equal))
	}
	missing := seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	return &seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: allowed, NamesWithCondtions: conditional},
		{Action: missing, Names: []string{"clone3"}},
	}}, nil
}

// equal is a call whose first argument has a value.
func equal(name string, value uint64, operation seccomp.Operation) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Operation: operation, Value: value}}}
}
