package machine

import (
	"math"
	"testing"
)

// A cgroup's limit counts processes and threads, and those that this process has already are its
// own.
func TestAvailableTasks(t *testing.T) {
	const mount = "38 31 0:37 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  Tasks
		says  string
	}{
		{"the parent's is less", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mount, "proc/self/status": "Name:\txdpcap\nThreads:\t5\n",
			"sys/fs/cgroup/a/pids.max": "20\n", "sys/fs/cgroup/a/pids.current": "18\n",
			"sys/fs/cgroup/a/b/pids.max": "10\n", "sys/fs/cgroup/a/b/pids.current": "5\n",
		}, Tasks{7, "of 20 processes and threads for the cgroup /a"}, "7, of 20 processes and threads for the cgroup /a"},
		{"its own is less", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mount, "proc/self/status": "Threads:\t5\n",
			"sys/fs/cgroup/a/pids.max": "20\n", "sys/fs/cgroup/a/pids.current": "8\n",
			"sys/fs/cgroup/a/b/pids.max": "10\n", "sys/fs/cgroup/a/b/pids.current": "7\n",
		}, Tasks{8, "of 10 processes and threads for the cgroup /a/b"}, "8, of 10 processes and threads for the cgroup /a/b"},
		{"more are there than may be", map[string]string{
			"proc/self/cgroup": "7:pids:/a\n0::/\n", "proc/self/mountinfo": "39 31 0:36 / /pids rw - cgroup cgroup rw,pids\n", "proc/self/status": "Threads:\t2\n",
			"pids/a/pids.max": "4\n", "pids/a/pids.current": "9\n",
		}, Tasks{2, "of 4 processes and threads for the cgroup /a"}, "2, of 4 processes and threads for the cgroup /a"},
		{"no limit", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mount,
			"sys/fs/cgroup/a/pids.max": "max\n", "sys/fs/cgroup/a/pids.current": "18\n",
		}, Tasks{Number: math.MaxUint64}, "18446744073709551615"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := availableTasks(tree(t, test.files)); got != test.want || got.String() != test.says {
				t.Errorf("%+v: %v", got, got)
			}
		})
	}
}
