package machine

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A cgroup is a control group that this process is in: its own, or an ancestor of that.
type cgroup struct {
	name      string // its path in /proc/self/cgroup
	version   int    // of the interface: 1 or 2
	directory string
	files     map[string]*os.File // by name, once it is open
}

// findCgroups returns the cgroups of this process that may have a controller, each before its
// parent, in the hierarchies of both versions. Cgroups outside of a container are not visible in
// it. All files are below root, which is "/" except in tests.
//
// A process started by `ip netns exec` has a /sys without cgroups. The process that called ip still
// has them, and root may read them there: so the mounts of this process are tried first, then those
// of its ancestors.
func findCgroups(root, controller string) (all []cgroup) {
	names := memberships(path.Join(root, "/proc/self/cgroup"), controller)
	for pid := "self"; pid != "" && pid != "0" && len(names) > 0; pid = field(path.Join(root, "proc", pid, "status"), "PPid") {
		mounts := "/" // relative to the root of the process that has them
		if pid != "self" {
			mounts = path.Join("proc", pid, "root")
		}
		for _, m := range cgroupMounts(path.Join(root, "proc", pid, "mountinfo"), controller) {
			at := path.Join(root, mounts, m.at)
			below, ok := m.find(names[m.version], at)
			if !ok {
				continue
			}
			delete(names, m.version) // it may be mounted twice
			for ; ; below = path.Dir(below) {
				all = append(all, cgroup{name: path.Join(m.root, below), version: m.version, directory: path.Join(at, below)})
				if below == "." {
					break
				}
			}
		}
	}
	return all
}

// RootCgroup returns the directory of the highest cgroup of version 2 that this process is in and
// can see: without a container, that is the one of all processes.
func RootCgroup() (directory string, ok bool) {
	for _, c := range findCgroups("/", "") {
		if c.version == 2 {
			directory, ok = c.directory, true
		}
	}
	return directory, ok
}

// open opens the files that exist. They are read repeatedly, even after the process has dropped the
// privileges, or the view of the file system, with which it opened them.
func (c *cgroup) open(names []string) {
	c.files = make(map[string]*os.File)
	for _, name := range names {
		if f, err := os.Open(path.Join(c.directory, name)); err == nil {
			c.files[name] = f
		}
	}
}

func (c *cgroup) close() {
	for _, f := range c.files {
		f.Close()
	}
}

// boundedCgroups opens files of the cgroups of this process that have a limit, and omits cgroups
// that it may not read.
func boundedCgroups(root, controller string, limit func(*cgroup) (uint64, bool), files ...string) (bounded []cgroup) {
	for _, c := range findCgroups(root, controller) {
		c.open(files)
		if _, ok := limit(&c); ok {
			bounded = append(bounded, c)
		} else {
			c.close()
		}
	}
	return bounded
}

// memberships returns, by version, the path of a process's cgroup that has a controller. list is
// the process's, as in cgroups(7), /proc/PID/cgroup. Version 2 always has a path; whether that
// cgroup has the controller follows from its files.
func memberships(list, controller string) map[int]string {
	paths := make(map[int]string)
	for _, line := range lines(list) {
		fields := strings.SplitN(line, ":", 3)
		switch {
		case len(fields) < 3:
		case fields[0] == "0" && fields[1] == "":
			paths[2] = fields[2]
		case slices.Contains(strings.Split(fields[1], ","), controller):
			paths[1] = fields[2]
		}
	}
	return paths
}

// A cgroupMount is the mount of a hierarchy of cgroups, or of a part of it.
type cgroupMount struct {
	version  int
	root, at string // the cgroup's path, and its directory
}

// cgroupMounts reads a list as in proc(5), /proc/PID/mountinfo.
func cgroupMounts(list, controller string) (mounts []cgroupMount) {
	for _, line := range lines(list) {
		mount, source, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(mount), strings.Fields(source)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		m := cgroupMount{root: unescape(fields[3]), at: unescape(fields[4])}
		switch {
		case kind[0] == "cgroup2":
			m.version = 2
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), controller):
			m.version = 1
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// unescape restores the spaces, tabs, line feeds and backslashes of a path in mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// find returns the position of a cgroup below the mount of its hierarchy; "." if it is the mount's
// own cgroup. directory is the mount's.
//
// In a cgroup namespace all paths are relative to the cgroup in which this process was when the
// namespace was made. After `unshare -C` alone, the mounts are still the host's: the root of such a
// mount is /.. for each level above that cgroup. The kernel does not report the names of these
// levels, so find searches for the cgroup.
func (m *cgroupMount) find(name, directory string) (below string, ok bool) {
	root := m.root
	for isAbove(root) && isAbove(name) {
		root, name = root[len("/.."):], name[len("/.."):]
	}
	levels := strings.Count(root, "/..")
	if levels == 0 || root != strings.Repeat("/..", levels) {
		return cutPath(cmp.Or(name, "/"), root)
	}
	return search(directory, levels, name)
}

// isAbove reports whether a path begins outside of the namespace's root.
func isAbove(name string) bool { return name == "/.." || strings.HasPrefix(name, "/../") }

// search finds this process's cgroup, which is the given number of levels below a directory plus a
// path.
func search(directory string, levels int, name string) (below string, ok bool) {
	if levels == 0 {
		processes := lines(path.Join(directory, name, "cgroup.procs"))
		return path.Clean("./" + name), slices.Contains(processes, strconv.Itoa(os.Getpid()))
	}
	entries, _ := os.ReadDir(directory)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if below, ok := search(path.Join(directory, e.Name()), levels-1, name); ok {
			return path.Join(e.Name(), below), true
		}
	}
	return "", false
}

// cutPath returns the part of a cgroup's path after that of an ancestor; "." if they are the same.
// It returns false if the other is not an ancestor.
func cutPath(name, ancestor string) (below string, ok bool) {
	below, ok = strings.CutPrefix(name, strings.TrimSuffix(ancestor, "/"))
	if !ok || name == "" || below != "" && below[0] != '/' || strings.HasPrefix(below, "/..") {
		return "", false // "/.." is outside of the namespace's root
	}
	return path.Clean(strings.TrimPrefix(below, "/")), true
}

func lines(file string) (all []string) {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// read reads a file from its beginning; "" if it is not open or the cgroup is gone.
func (c *cgroup) read(file string) string {
	f := c.files[file]
	if f == nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	return string(text)
}

// value reads a file with one number. It returns false if the file has another text, such as "max".
func (c *cgroup) value(file string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(c.read(file)), 10, 64)
	return n, err == nil
}

// values reads numbers from a file of lines "key number". A missing key counts as 0.
func (c *cgroup) values(file string, keys ...string) []uint64 {
	n := make([]uint64, len(keys))
	for line := range strings.Lines(c.read(file)) {
		key, number, _ := strings.Cut(line, " ")
		if i := slices.Index(keys, key); i >= 0 {
			n[i], _ = strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		}
	}
	return n
}
