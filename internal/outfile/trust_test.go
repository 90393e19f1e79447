package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A Trust without links opens or makes the file at the path itself, and follows no link that is not
// root's, at any position of the path.
func TestTrustNoLinks(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	dir := t.TempDir()
	file, second := filepath.Join(dir, "file"), filepath.Join(dir, "second")
	mustWrite(t, file, "text")
	mustWrite(t, second, "text")
	const roots = "" // the error for a path with root's own links
	link := func(target, name string, owner int) error {
		path := filepath.Join(dir, name)
		return errors.Join(os.Symlink(target, path), os.Lchown(path, owner, owner))
	}
	if err := errors.Join(
		link(file, "link", 1234), link(dir, "directory", 1234), link(os.DevNull, "device", 1234),
		link("file", "roots", 0), link(".", "here", 0), link("here/roots", "several", 0), link("several", "round", 1234),
		link("link", "to another's", 0), link("endless", "endless", 0), link("/dev/stderr", "stream", 0), link("/proc/self/exe", "magic", 0),
		link("file", "linked", 0), os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "linked twice")),
		os.Mkdir(filepath.Join(dir, "below"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.Link(second, filepath.Join(dir, "below/name")),
	); err != nil {
		t.Fatal(err)
	}
	const another = "is a symbolic link that may not be root's own"
	reader, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer reader.Close()
	for name, want := range map[string]string{
		"file": "", "new": "", "fifo": "",
		"link": another, "directory/file": another, "directory/new": another, "device": another, "to another's": another,
		"here/roots": roots, "here/here//several": roots, "here/linked": another, "round": another, "magic": another,
		"endless": "too many levels of symbolic links", "here/link": another, "stream": roots,
		"second": "it has a second name",
	} {
		f, err := Open(filepath.Join(dir, name), Options{Trust: Trust{NoLinks: true}})
		if want != "" {
			checkError(t, err, "open "+filepath.Join(dir, name)+": ", want)
			if got := errors.Is(err, errUntrusted); got != (name == "second") {
				t.Errorf("%s: it is of the kind errUntrusted: %v", name, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info, err := f.Stat(); err != nil || name == "new" && info.Mode() != 0o600 {
			t.Errorf("%s: what was made has the mode %v, %v", name, info.Mode(), err)
		}
		if err := f.SetWriteDeadline(time.Now()); name == "fifo" && err != nil {
			t.Errorf("a write to the FIFO cannot be given up: %v", err)
		}
		f.Close()
	}
	if got := content(t, file) + content(t, second); got != "texttext" {
		t.Errorf("the files have %q", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was never begun is still there: %v", err)
	}
}

// A Trust with owners opens no file of another user, but devices of anybody, by links of root
// alone.
func TestTrustOwners(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	path := filepath.Join(t.TempDir(), "file")
	mustWrite(t, path, "text")
	must(t, os.Chown(path, 1234, 1234))
	_, err := Open(path, Options{Trust: Trust{Owners: []int{0, 1235}}})
	checkError(t, err, "it belongs to another user, with id 1234")
	if !errors.Is(err, errUntrusted) {
		t.Errorf("the error %v is of another kind", err)
	}
	device := path + ".device"
	must(t, os.Symlink(os.DevNull, device))
	for path, owners := range map[string][]int{path: {0, 1234}, os.DevNull: {1234}, device: {1234}} {
		mustOpen(t, path, Options{Trust: Trust{Owners: owners}})
	}
	must(t, os.Lchown(device, 1234, 1234))
	_, err = Open(device, Options{Trust: Trust{Owners: []int{1234}}})
	checkError(t, err, device+" is a symbolic link that may not be root's own")
}

// TryDirectory leaves no file there, even if it fails.
func TestTryDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	for path, trust := range map[string]Trust{dir: {NoLinks: true}, link: {}} {
		if err := TryDirectory(path, trust); err != nil {
			t.Error(err)
		}
	}
	if os.Geteuid() == 0 {
		must(t, os.Lchown(link, 1234, 1234))
		checkError(t, TryDirectory(link, Trust{NoLinks: true}), "create files in "+link+": "+link+" is a symbolic link")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
	checkError(t, TryDirectory(dir+"/missing", Trust{}), "create files in "+dir+"/missing: no such file or directory")
}

// TryFile changes neither the file nor another one at its path.
func TestTryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "file"), filepath.Join(dir, "empty")
	mustWrite(t, file, "text")
	must(t, os.Mkdir(empty, 0o700))
	for _, o := range []Options{{}, {Atomic: true}} {
		for _, path := range []string{file, filepath.Join(dir, "missing")} {
			if err := TryFile(path, o); err != nil {
				t.Errorf("%s, %+v: %v", path, o, err)
			}
		}
		checkError(t, TryFile(empty, o), "it is not a regular file")
		o.New = true
		if err := TryFile(file, o); !errors.Is(err, ErrNameTaken) {
			t.Errorf("a name that is taken, %+v: %v", o, err)
		}
	}
	if info, err := os.Stat(empty); err != nil || !info.IsDir() || content(t, file) != "text" {
		t.Errorf("%v, %v: something was changed", info, err)
	}
}
