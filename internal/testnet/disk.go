package testnet

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// MustMount mounts a new file system, of a kind such as tmpfs, at a directory, and unmounts it when
// the test ends. It needs root.
func MustMount(tb TB, kind, dir string, flags uintptr, options string) {
	tb.Helper()
	RequireRoot(tb)
	if err := unix.Mount(kind, dir, kind, flags, options); err != nil {
		tb.Fatalf("mount a file system of kind %s at %s: %v", kind, dir, err)
		return
	}
	tb.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// MustFailingDisk returns a directory on a disk that accepts 6 MB and then fails to store them:
// only fsync reports that. It needs root and loop devices.
func MustFailingDisk(tb TB) string {
	tb.Helper()
	RequireRoot(tb)
	Require(tb, "mkfs.ext4")
	// An image on a file system that has less room than the image promises.
	return mustLoop(tb, "size=2m", 16<<20, "mkfs.ext4", "-q", "-O", "^has_journal")
}

// DiskKinds are the kinds of disks that MustDisk makes.
var DiskKinds = []string{"ext4", "xfs", "btrfs", "tmpfs", "overlay"}

// MustDisk returns a directory on a new disk of a kind. It needs root, and for some kinds loop
// devices and the kind's mkfs. If the kernel does not have the kind, the test is skipped, also on
// CI: that depends on the kernel, not on the installed packages.
func MustDisk(tb TB, kind string) string {
	tb.Helper()
	RequireRoot(tb)
	switch kind {
	case "tmpfs":
		dir := tb.TempDir()
		MustMount(tb, kind, dir, 0, "size=64m")
		return dir
	case "overlay":
		below, dir := MustDisk(tb, "tmpfs"), tb.TempDir()
		options := "lowerdir=" + tb.TempDir()
		for _, name := range []string{"upper", "work"} {
			path := filepath.Join(below, name)
			if err := os.Mkdir(path, 0o700); err != nil {
				tb.Fatalf("%v", err)
				return ""
			}
			options += "," + name + "dir=" + path
		}
		MustMount(tb, kind, dir, 0, options)
		return dir
	}
	if !hasFileSystem(kind) {
		tb.Skipf("this kernel has no %s", kind)
	}
	Require(tb, "mkfs."+kind)
	return mustLoop(tb, "size=400m", 384<<20, "mkfs."+kind, "-q") // XFS takes 300 MB at least
}

// hasFileSystem reports whether the kernel has a kind of file system, built in or as a module.
func hasFileSystem(kind string) bool {
	exec.Command("modprobe", kind).Run() // fails if the kind is built in and modprobe does not find it
	kinds, _ := os.ReadFile("/proc/filesystems")
	return slices.Contains(strings.Fields(string(kinds)), kind)
}

// mustLoop returns a directory on a disk of this many bytes that a command makes in a file. The
// file is on a tmpfs, which is mounted with options.
func mustLoop(tb TB, options string, bytes int64, mkfs ...string) string {
	tb.Helper()
	below, mounted := tb.TempDir(), tb.TempDir()
	MustMount(tb, "tmpfs", below, 0, options)
	image := filepath.Join(below, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		tb.Fatalf("%v", err)
		return ""
	}
	if err := os.Truncate(image, bytes); err != nil {
		tb.Fatalf("%v", err)
		return ""
	}
	for _, args := range [][]string{append(mkfs, image), {"mount", "-o", "loop", image, mounted}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			tb.Fatalf("%v: %v: %s", args, err, out)
			return ""
		}
	}
	tb.Cleanup(func() { unix.Unmount(mounted, unix.MNT_DETACH) })
	return mounted
}
