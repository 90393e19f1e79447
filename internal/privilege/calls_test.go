package privilege

import (
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
)

// The table of system calls is one for each architecture that there are packages for, has no name
// that none of them knows, and names nothing twice.
func TestCalls(t *testing.T) {
	works := []Work{Files, BPF, Tracing, Accepting, Sending}
	for _, architecture := range []string{"amd64", "arm64"} {
		for _, work := range append([][]Work{nil, works}, []Work{Files, BPF}, []Work{BPF, Tracing, Accepting}) {
			policy, err := policyOf(work, architecture)
			if err != nil {
				t.Fatal(err)
			}
			if policy.DefaultAction != seccomp.ActionErrno {
				t.Errorf("%s: anything else is answered by %v", architecture, policy.DefaultAction)
			}
			if architecture == "arm64" {
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
