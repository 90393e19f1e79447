package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	m := AvailableMemory()
	var is unix.Sysinfo_t
	if err := unix.Sysinfo(&is); err != nil {
		t.Fatal(err)
	}
	has, free := is.Totalram*uint64(is.Unit), is.Freeram*uint64(is.Unit)
	if m.Bytes < 1<<20 || m.Bytes > has {
		t.Errorf("%d bytes of memory are available of %d", m.Bytes, has)
	}
	if more := MachineMemory(); more.IsOfMachine() && more.Bytes < free/64 {
		t.Errorf("%d bytes are free, and the machine has %v", free, more)
	}
	if more := MachineMemory(); more.Bytes < m.Bytes/2 { // others take and free memory meanwhile
		t.Errorf("the machine has %v and the process %v", more, m)
	}
}

// The memory left in a cgroup of either version and its ancestors, wherever their files are.
func TestCgroupMemory(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	v1 := func(limit, usage uint64, stat string) map[string]string {
		return map[string]string{
			"memory.limit_in_bytes": fmt.Sprintln(limit), "memory.usage_in_bytes": fmt.Sprintln(usage), "memory.stat": stat,
		}
	}
	v2 := func(limit, high string, usage uint64, stat string) map[string]string {
		return map[string]string{
			"memory.max": limit + "\n", "memory.high": high + "\n", "memory.current": fmt.Sprintln(usage), "memory.stat": stat,
		}
	}
	mine := func(files map[string]string) map[string]string { // this process is there
		files["cgroup.procs"] = fmt.Sprintf("1\n%d\n", os.Getpid())
		return files
	}
	const (
		hybrid = "9:name=systemd:/x\n4:cpuset,memory:%s\n0::/\n"
		mount1 = "35 31 0:32 %s %s rw,relatime - cgroup cgroup rw,cpuset,memory\n"
		mount2 = "38 31 0:37 %s %s rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		others = "23 1 0:20 / / rw - ext4 /dev/vda1 rw\n31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		none   = 0x7ffffffffffff000 // version 1's value for no limit
	)
	for _, test := range []struct {
		name    string
		proc    map[string]string            // files in /proc
		cgroups map[string]map[string]string // files by directory
		want    []string
	}{
		{
			name: "version 1",
			proc: map[string]string{"self/cgroup": fmt.Sprintf(hybrid, "/a/b"), "self/mountinfo": others + fmt.Sprintf(mount1, "/", "/sys/fs/cgroup/memory")},
			cgroups: map[string]map[string]string{
				"sys/fs/cgroup/memory":     v1(none, 900*mib, ""),
				"sys/fs/cgroup/memory/a":   v1(300*mib, 280*mib, "inactive_file 7\ntotal_inactive_file 104857600\ntotal_dirty 1048576\ntotal_writeback 3145728\n"),
				"sys/fs/cgroup/memory/a/b": v1(200*mib, 40*mib, "total_inactive_file 1048576\ntotal_dirty 2097152\n"),
			},
			want: []string{"160 MiB, of 200 MiB for the cgroup /a/b", "116 MiB, of 300 MiB for the cgroup /a"},
		},
		{
			name: "version 2",
			proc: map[string]string{"self/cgroup": "0::/kube/pod/it\n", "self/mountinfo": others + fmt.Sprintf(mount2, "/", "/sys/fs/cgroup")},
			cgroups: map[string]map[string]string{
				"sys/fs/cgroup":             {"memory.stat": "inactive_file 1048576\n"},
				"sys/fs/cgroup/kube":        v2("max", "max", 800*mib, ""),
				"sys/fs/cgroup/kube/pod":    v2("536870912", "max", 500*mib, "inactive_file 16777216\nfile_dirty 4194304\nfile_writeback 0\n"),
				"sys/fs/cgroup/kube/pod/it": v2("max", "268435456", 200*mib, ""),
			},
			want: []string{"56 MiB, of 256 MiB for the cgroup /kube/pod/it", "24 MiB, of 512 MiB for the cgroup /kube/pod"},
		},
		{
			name: "in a container with a namespace of cgroups",
			proc: map[string]string{"self/cgroup": "0::/\n", "self/mountinfo": others + fmt.Sprintf(mount2, "/", "/sys/fs/cgroup")},
			cgroups: map[string]map[string]string{
				"sys/fs/cgroup": v2("67108864", "33554432", 40*mib, ""),
			},
			want: []string{"0 MiB, of 32 MiB for the cgroup /"},
		},
		{
			name: "in a container without one",
			proc: map[string]string{
				"self/cgroup":    "4:memory:/docker/id\n0::/docker/id\n",
				"self/mountinfo": others + fmt.Sprintf(mount1, "/docker/id", "/sys/fs/cgroup/memory") + fmt.Sprintf(mount1, "/docker/id", `/other\040place`),
			},
			cgroups: map[string]map[string]string{
				"sys/fs/cgroup/memory": v1(64*mib, 4*mib, ""),
				"other place":          v1(64*mib, 4*mib, ""),
			},
			want: []string{"60 MiB, of 64 MiB for the cgroup /docker/id"},
		},
		{
			name: "an ancestor sees cgroups, and this process does not",
			proc: map[string]string{
				"self/cgroup": "4:memory:/a\n", "self/mountinfo": "23 1 0:20 / / rw - ext4 /dev/vda1 rw\n90 23 0:50 / /sys rw - sysfs ns rw\n",
				"self/status": "Name:\txdpcap\nPPid:\t7\n", "7/status": "PPid:\t5\n",
				"5/mountinfo": others + fmt.Sprintf(mount1, "/", `/with\040space`),
			},
			cgroups: map[string]map[string]string{
				"proc/5/root/with space/a": v1(64*mib, 14*mib, ""),
			},
			want: []string{"50 MiB, of 64 MiB for the cgroup /a"},
		},
		{
			name: "in a namespace of cgroups without mounts of its own",
			proc: map[string]string{
				"self/cgroup":    "4:memory:/sub\n0::/../moved\n",
				"self/mountinfo": others + fmt.Sprintf(mount1, "/../..", "/sys/fs/cgroup/memory") + fmt.Sprintf(mount2, "/../..", "/sys/fs/cgroup/unified"),
			},
			cgroups: map[string]map[string]string{
				"sys/fs/cgroup/memory/a":             v1(64*mib, 4*mib, ""),
				"sys/fs/cgroup/memory/a/other/sub":   v1(16*mib, 4*mib, ""),
				"sys/fs/cgroup/memory/a/own":         v1(32*mib, 2*mib, ""),
				"sys/fs/cgroup/memory/a/own/sub":     mine(v1(none, 2*mib, "")),
				"sys/fs/cgroup/memory/b":             v1(mib, 0, ""),
				"sys/fs/cgroup/unified/a/moved":      mine(v2("25165824", "max", mib, "")),
				"sys/fs/cgroup/unified/a/own":        v2("1048576", "max", 0, ""),
				"sys/fs/cgroup/unified/b/moved/deep": v2("1048576", "max", 0, ""),
			},
			want: []string{"30 MiB, of 32 MiB for the cgroup /a/own", "60 MiB, of 64 MiB for the cgroup /a", "23 MiB, of 24 MiB for the cgroup /a/moved"},
		},
		{
			name:    "in a namespace of cgroups, where another process is",
			proc:    map[string]string{"self/cgroup": "0::/\n", "self/mountinfo": fmt.Sprintf(mount2, "/..", "/sys/fs/cgroup")},
			cgroups: map[string]map[string]string{"sys/fs/cgroup/a": v2("67108864", "max", mib, "")},
		},
		{
			name: "moved to what was the mount's own",
			proc: map[string]string{"self/cgroup": "0::/..\n", "self/mountinfo": fmt.Sprintf(mount2, "/..", "/sys/fs/cgroup")},
			cgroups: map[string]map[string]string{
				"sys/fs/cgroup": v2("67108864", "max", 4*mib, ""), "sys/fs/cgroup/a": v2("1048576", "max", 0, ""),
			},
			want: []string{"60 MiB, of 64 MiB for the cgroup /"},
		},
		{
			name:    "outside of what is mounted",
			proc:    map[string]string{"self/cgroup": "0::/../sibling\n", "self/mountinfo": fmt.Sprintf(mount2, "/", "/sys/fs/cgroup")},
			cgroups: map[string]map[string]string{"sys/fs/cgroup": v2("67108864", "max", mib, "")},
		},
		{
			name:    "a path that only begins like the mount's",
			proc:    map[string]string{"self/cgroup": "0::/ab/c\n", "self/mountinfo": fmt.Sprintf(mount2, "/a", "/sys/fs/cgroup")},
			cgroups: map[string]map[string]string{"sys/fs/cgroup": v2("67108864", "max", mib, "")},
		},
		{name: "nothing there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := make(map[string]string)
			for file, text := range test.proc {
				files["proc/"+file] = text
			}
			for directory, all := range test.cgroups {
				for file, text := range all {
					files[directory+"/"+file] = text
				}
			}
			root := tree(t, files)
			var got []string
			bounded := boundedCgroups(root, "memory", (*cgroup).memoryLimit, memoryFiles...)
			for _, c := range bounded {
				m, ok := c.memory()
				if !ok || m.IsOfMachine() {
					t.Errorf("%+v has no memory", c)
				}
				got = append(got, m.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			// The cgroup that leaves least is the last one in the tables, and counts in any order.
			machine := Memory{Bytes: 1 << 40}
			want := machine.String()
			if len(test.want) > 0 {
				want = test.want[len(test.want)-1]
			}
			for range 2 {
				if got := least(machine, bounded).String(); got != want {
					t.Errorf("%s are left, want %s", got, want)
				}
				slices.Reverse(bounded)
			}
		})
	}
}

// tree makes a directory with these files.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for file, text := range files {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMemoryString(t *testing.T) {
	t.Parallel()
	if m := (Memory{Bytes: 3<<20 + 5}); m.String() != "3 MiB" || !m.IsOfMachine() || strings.Contains(m.String(), ",") {
		t.Errorf("%v", m)
	}
}
