package testnet

import (
	"os"
	"os/exec"
	"path/filepath"

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
	small, mounted := tb.TempDir(), tb.TempDir()
	MustMount(tb, "tmpfs", small, 0, "size=2m")
	image := filepath.Join(small, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		tb.Fatalf("%v", err)
		return ""
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		tb.Fatalf("%v", err)
		return ""
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-O", "^has_journal", image}, {"mount", "-o", "loop", image, mounted}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			tb.Fatalf("%v: %v: %s", args, err, out)
			return ""
		}
	}
	tb.Cleanup(func() { unix.Unmount(mounted, unix.MNT_DETACH) })
	return mounted
}
