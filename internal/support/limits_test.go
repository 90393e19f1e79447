package support

import "testing"

func TestHasBPFFS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mounts string
		want         bool
	}{
		{"none", "", false},
		{"at its usual place", "31 25 0:27 / /sys/fs/bpf rw,nosuid shared:11 - bpf bpf rw,mode=700\n", true},
		{"elsewhere, behind others", "25 1 0:22 / /sys rw - sysfs sysfs rw\n99 25 0:50 / /run/maps rw - bpf none rw\n", true},
		{"a directory of that name", "31 25 0:27 / /sys/fs/bpf rw master:1 shared:2 - tmpfs bpf rw\n", false},
	} {
		expect(t, test.name, test.want, hasBPFFS(test.mounts))
	}
}
