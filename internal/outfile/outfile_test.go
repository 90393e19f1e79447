package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// must ends the test if there is an error.
var must = testnet.Must

func mustOpen(t *testing.T, path string, o Options) *File {
	t.Helper()
	f, err := Open(path, o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// checkError checks that an error contains these words.
func checkError(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("the error %v does not say %q", err, w)
		}
	}
}

// An older file is emptied by Begin and not before, and a new one is removed unless it was begun.
func TestBegin(t *testing.T) {
	t.Parallel()
	older, made := filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "made")
	mustWrite(t, older, "precious")
	for _, path := range []string{older, made} {
		mustOpen(t, path, Options{}).Close()
	}
	if got := content(t, older); got != "precious" {
		t.Errorf("the older file is %q now", got)
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that was made is still there: %v", err)
	}
	for _, path := range []string{older, made} {
		f := mustOpen(t, path, Options{})
		if err := f.Begin(); err != nil {
			t.Error(err)
		}
		f.Write([]byte("new"))
		if err := errors.Join(f.Finish(3), f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if got := content(t, path); got != "new" {
			t.Errorf("%s: the file is %q", path, got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
}

// A second Open of the same file is refused, under any name, and does not change the file.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	f := mustOpen(t, path, Options{})
	f.Begin()
	f.Write([]byte("first"))
	link := path + ".link"
	must(t, os.Link(path, link))
	for _, name := range []string{path, link} {
		_, err := Open(name, Options{})
		checkError(t, err, "lock "+name+": another program is writing to it")
	}
	if got := content(t, path); got != "first" {
		t.Errorf("the file is %q now", got)
	}
	// A child that was forked has a copy of the descriptor until it executes its program.
	inherited, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(inherited)
	f.Close()
	mustOpen(t, path, Options{})
}

// Check detects changes of the file by others.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		do      func(path string) error
		spoiled bool
		want    string // in the error; "" = no error
	}{
		{"nothing", func(string) error { return nil }, false, ""},
		{"linked", func(path string) error { return os.Link(path, path+".2") }, false, ""},
		{"removed", os.Remove, true, "was removed or replaced while"},
		{"renamed", func(path string) error { return os.Rename(path, path+".1") }, false, "was renamed"},
		{"replaced", func(path string) error {
			return errors.Join(os.Rename(path, path+".1"), os.WriteFile(path, []byte("packets"), 0o600))
		}, false, "was renamed or replaced"},
		{"overwritten by a rename", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		}, true, "was removed or replaced while"},
		{"truncated", func(path string) error { return os.Truncate(path, 0) }, true, "has 4 bytes instead of 11"},
		{"cut", func(path string) error { return os.Truncate(path, 6) }, true, "has 10 bytes instead of 11"},
		{"appended to", func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				f.WriteString("log line")
				f.Close()
			}
			return err
		}, true, "has 19 bytes instead of 11"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			f := mustOpen(t, path, Options{})
			f.Begin()
			f.Write([]byte("packets"))
			if err := f.Check(7); err != nil {
				t.Error(err)
			}
			must(t, test.do(path))
			// Bytes that are written afterwards do not make the file whole again.
			f.Write([]byte("more"))
			for _, err := range []error{f.Check(11), f.Finish(11)} {
				switch {
				case test.want == "" && err != nil:
					t.Error(err)
				case test.want != "":
					checkError(t, err, path, test.want)
				}
				if errors.Is(err, ErrSpoiled) != test.spoiled {
					t.Errorf("the kind of %v", err)
				}
			}
		})
	}
}

// A file that is removed during a check is never reported as renamed, because its packets could not
// be found.
func TestCheckMeanwhileRemoved(t *testing.T) {
	t.Parallel()
	for range 300 {
		path := filepath.Join(t.TempDir(), "out")
		f := mustOpen(t, path, Options{})
		f.Begin()
		removed := make(chan error)
		go func() { removed <- os.Remove(path) }()
		var err error
		for err == nil {
			err = f.Check(0)
		}
		must(t, <-removed)
		if !errors.Is(err, ErrSpoiled) {
			t.Fatal(err)
		}
		f.Close()
	}
}

// A file that is no longer at its path is not removed there.
func TestCloseRemovesOwnFileOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	f := mustOpen(t, path, Options{})
	must(t, os.Remove(path))
	mustWrite(t, path, "somebody else's")
	f.Close()
	if got := content(t, path); got != "somebody else's" {
		t.Errorf("the file is %q", got)
	}
}

// A dangling symbolic link is named as such, and no file is made at its target.
func TestDanglingLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	must(t, os.Symlink(target, link))
	_, err := Open(link, Options{})
	checkError(t, err, link+": it is a symbolic link to "+target+", which does not exist")
	if _, err := os.Stat(target); err == nil {
		t.Error("the target was made")
	}
	mustWrite(t, target, "")
	f := mustOpen(t, link, Options{})
	if err := errors.Join(f.Begin(), f.Check(0)); err != nil {
		t.Error(err)
	}
}

// Other users' files and pipes in a directory like /tmp are refused as the kernel's protection
// requires. Serial: it may change that protection in a machine of its own.
func TestSticky(t *testing.T) {
	testnet.RequireRoot(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	for sysctl, mk := range map[string]func(path string) error{
		"protected_regular": func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"protected_fifos":   func(path string) error { return unix.Mkfifo(path, 0o666) },
	} {
		t.Run(sysctl, func(t *testing.T) {
			setting := "/proc/sys/fs/" + sysctl
			if testnet.Emulated() {
				// Only a machine of the test's own may be set differently.
				before := content(t, setting)
				mustWrite(t, setting, "1")
				defer mustWrite(t, setting, before)
			}
			path := filepath.Join(dir, sysctl)
			must(t, mk(path))
			must(t, os.Chown(path, 65534, 65534))
			if !isProtected(path) {
				t.Error("the file is not seen as one that the kernel protects")
			}
			// A pipe whose reader is there is opened without waiting.
			reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
			must(t, err)
			defer reader.Close()
			f, err := Open(path, Options{})
			if strings.TrimSpace(content(t, setting)) == "0" {
				if err != nil {
					t.Fatalf("%s is 0: %v", setting, err)
				}
				f.Close()
				return
			}
			checkError(t, err, "permission denied: it belongs to another user", "fs."+sysctl)
		})
	}
}

// A failing disk shows only in Finish. Serial: it starts programs, which have for a moment the
// descriptors that other tests close, such as the reader's of TestPipe.
func TestFinishDiskFails(t *testing.T) {
	path := filepath.Join(testnet.MustFailingDisk(t), "out")
	f := mustOpen(t, path, Options{})
	defer f.Close()
	must(t, f.Begin())
	const size = 6 << 20
	if n, err := f.Write(make([]byte, size)); n != size || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	checkError(t, f.Finish(size), "sync "+path+" to disk: ", "packets may be missing")
}

// A pipe's reader that goes away is detected also while no packets are written. Files that are not
// regular are neither locked nor truncated.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	f, second := mustOpen(t, path, Options{}), mustOpen(t, path, Options{})
	if err := errors.Join(f.Begin(), f.Check(5), second.Begin()); err != nil {
		t.Error(err)
	}
	if size, err := unix.FcntlInt(reader.Fd(), unix.F_GETPIPE_SZ, 0); size != pipeSize || err != nil {
		t.Errorf("the pipe holds %d bytes (%v)", size, err)
	}
	reader.Close()
	for _, err := range []error{f.Check(5), f.Finish(5)} {
		if !errors.Is(err, unix.EPIPE) {
			t.Errorf("the error is %v", err)
		}
		checkError(t, err, path+": its reader has gone away")
	}
	null := mustOpen(t, os.DevNull, Options{})
	if err := errors.Join(null.Begin(), null.Finish(5)); err != nil {
		t.Error(err)
	}
}

// A file that somebody else has opened is theirs: it may be removed, or have more in it.
func TestOpened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	mustWrite(t, path, "before ")
	theirs, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer theirs.Close()
	f, err := Opened(theirs, "standard output")
	must(t, err)
	f.Begin()
	f.Write([]byte("packets"))
	if got := content(t, path); got != "before packets" {
		t.Errorf("the file is %q", got)
	}
	os.Remove(path)
	if err := errors.Join(f.Finish(7), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := theirs.Stat(); err != nil {
		t.Errorf("it was closed: %v", err)
	}
}

// If no file can be made, the error has the remedy: room, or another directory.
func TestNoRoomToOpen(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for _, test := range []struct {
		options  string
		readOnly bool
		want     string
	}{
		{"nr_inodes=2", false, ": no space left on device: make room there, or choose another directory"},
		{"size=1m", true, ": read-only file system: choose another directory"},
	} {
		dir := t.TempDir()
		testnet.MustMount(t, "tmpfs", dir, 0, test.options)
		if err := os.WriteFile(dir+"/first", nil, 0o600); err != nil { // takes the only inode
			t.Fatal(err)
		}
		if test.readOnly {
			must(t, unix.Mount("none", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, test.options))
		}
		_, err := Open(dir+"/second", Options{})
		checkError(t, err, "open "+dir+"/second"+test.want)
	}
}

// Free space is counted in fragments, where a file system has them, and else in blocks.
func TestFreeBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		s    unix.Statfs_t
		want int64
	}{
		{unix.Statfs_t{Bavail: 10, Bsize: 1 << 20, Frsize: 4096}, 40960},
		{unix.Statfs_t{Bavail: 10, Bsize: 4096}, 40960},
	} {
		if got, err := freeBytes(&test.s, "", nil); got != test.want || err != nil {
			t.Errorf("%+v: %d bytes, want %d; %v", test.s, got, test.want, err)
		}
	}
}
