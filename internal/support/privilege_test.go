package support

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestMissingCapabilities(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		held []int
		want []string
	}{
		{"none", nil, []string{"CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"}},
		{"all", []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}, nil},
		{"the old way", []int{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}, nil},
		{"without the network", []int{unix.CAP_SYS_ADMIN}, []string{"CAP_NET_ADMIN"}},
		{"without tracing", []int{unix.CAP_BPF, unix.CAP_NET_ADMIN}, []string{"CAP_PERFMON"}},
		{"without BPF", []int{unix.CAP_PERFMON, unix.CAP_NET_ADMIN}, []string{"CAP_BPF"}},
	} {
		var held uint64
		for _, bit := range test.held {
			held |= 1 << bit
		}
		expect(t, test.name, test.want, missingCapabilities(held))
	}
}
