package machine

import (
	"math"
	"testing"
)

// A cgroup's limit counts processes and threads, and the threads of this process are available to
// it.
func TestAvailableTasks(t *testing.T) {
	t.Parallel()
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

// Numbers that change while they are read are read again, but not for ever.
func TestTasksAgreed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		numbers []uint64 // the last one is repeated
		want    uint64
	}{
		{[]uint64{11, 10}, 10},
		{[]uint64{10, 11, 10, 10, 9}, 10},
		{[]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}, 20},
	} {
		left := test.numbers
		got := stable(func() Tasks {
			n := left[0]
			if len(left) > 1 {
				left = left[1:]
			}
			return Tasks{Number: n}
		})
		if got.Number != test.want {
			t.Errorf("%v: %d, want %d", test.numbers, got.Number, test.want)
		}
	}
}
