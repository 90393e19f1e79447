package privilege

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The table of system calls is one for each architecture that there are packages for, has no name
// that none of them knows, and names nothing twice.
func TestCalls(t *testing.T) {
	t.Parallel()
	works := []Work{Files, BPF, Tracing, Accepting, Sending}
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
		"keyctl", "io_uring_setup", "userfaultfd", "process_vm_writev", "kexec_load", "capset", "listen"} {
		for _, list := range lists {
			if slices.Contains(list, dangerous) {
				t.Errorf("%s is allowed", dangerous)
			}
		}
	}
}

// Where a call's first argument decides, threads are made and no processes, and sockets of the
// process's work alone.
func TestCallArguments(t *testing.T) {
	t.Parallel()
	here, err := arch.GetInfo("")
	must(t, err)
	all := []Work{Files, BPF, Tracing, Accepting, Sending}
	for _, test := range []struct {
		call     string
		argument uint64
		work     []Work
		want     seccomp.Action
	}{
		{"clone", unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND, nil, seccomp.ActionAllow},
		{"clone", uint64(unix.SIGCHLD), all, seccomp.ActionErrno},
		{"clone3", 0, all, seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		{"socket", unix.AF_UNIX, nil, seccomp.ActionErrno},
		{"socket", unix.AF_UNIX, []Work{BPF}, seccomp.ActionAllow},
		{"socket", unix.AF_INET, []Work{Files, BPF, Tracing, Accepting}, seccomp.ActionErrno},
		{"socket", unix.AF_INET, []Work{Sending}, seccomp.ActionAllow},
		{"socket", unix.AF_PACKET, all, seccomp.ActionErrno},
		{"setfsuid", ^uint64(0), nil, seccomp.ActionErrno},
		{"setfsuid", ^uint64(0), []Work{Files}, seccomp.ActionAllow},
		{"setfsuid", 0, all, seccomp.ActionErrno},
		{"openat", 0, nil, seccomp.ActionErrno},
		{"openat", 0, []Work{Files}, seccomp.ActionAllow},
	} {
		policy, err := policyOf(test.work, "")
		must(t, err)
		program, err := policy.Assemble()
		must(t, err)
		vm, err := bpf.NewVM(program)
		must(t, err)
		var data [64]byte // struct seccomp_data; the VM reads its words as the network orders them
		for at, word := range map[int]uint32{0: uint32(here.SyscallNames[test.call]), 4: uint32(here.ID), 16: uint32(test.argument), 20: uint32(test.argument >> 32)} {
			binary.BigEndian.PutUint32(data[at:], word)
		}
		got, err := vm.Run(data[:])
		must(t, err)
		if test.want == seccomp.ActionErrno {
			got &^= 0xffff // whichever
		}
		if seccomp.Action(got) != test.want {
			t.Errorf("%s(%#x) of a process that does %v: %#x, want %#x", test.call, test.argument, test.work, got, uint32(test.want))
		}
	}
}
