package privilege

import (
	"errors"
	"fmt"
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
	BPF                   // looks at maps, programs and links, and asks netlink about interfaces
	Tracing               // opens perf events
	Accepting             // accepts connections on sockets that already listen
	Sending               // makes connections by TCP and UDP, and looks up names
)

// calls are the system calls that each Work needs in addition to runtimeCalls. They were found by
// strace of the commands, and by tests that run with a filter which ends the process at any other
// call. Go's library has several calls for the same purpose and chooses among them.
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

// runtimeCalls are the calls that every Go program makes, and those on open files.
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

// errNoSeccomp is the kind of error if system calls cannot be filtered here.
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

// filters counts those that this process has loaded.
var filters atomic.Int32

// Filters is how many filters of system calls this process has loaded. They permit all that it
// does, so none of them is why the kernel refuses something.
func Filters() int { return int(filters.Load()) }

// policyOf returns the filter for an architecture; "" = this one. It skips calls that an
// architecture does not have: arm64 has openat but no open.
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
	// Allows new threads, but no new processes. A filter cannot see the flags of clone3, and
	// callers of clone3 fall back to clone if it is missing.
	conditional := []seccomp.NameWithConditions{equal("clone", unix.CLONE_THREAD, seccomp.BitsSet)}
	if slices.Contains(work, Files) {
		// Sets nothing, and returns the user whose rights count when a file is opened.
		conditional = append(conditional, equal("setfsuid", ^uint64(0), seccomp.Equal))
	}
	for _, family := range sockets {
		conditional = append(conditional, equal("socket", family, seccomp.Equal))
	}
	missing := seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	return &seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: allowed, NamesWithCondtions: conditional},
		{Action: missing, Names: []string{"clone3"}},
	}}, nil
}

// equal is a call whose first argument must have a value.
func equal(name string, value uint64, operation seccomp.Operation) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Operation: operation, Value: value}}}
}
