package outputs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A socket that is closed leaves alone what has its name by then, and none is made while somebody
// else makes one in the same directory.
func TestListenLocally(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	first, err := listenLocally(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Rename(path, path+".old"); err != nil { // its inode is not given to the second one
		t.Fatal(err)
	}
	second, err := listenLocally(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another process was removed: %v", err)
	}
	second.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	other, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	// Who keeps the directory locked keeps nobody out.
	third, err := listenLocally(path)
	if err != nil {
		t.Fatalf("in a locked directory: %v", err)
	}
	third.Close()
}

// A socket is given to a user, and nothing else that somebody has put at its name.
func TestGiveSocket(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	const nobody = 65534
	for name, replace := range map[string]func(path string) error{
		"the socket":  nil,
		"a file":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a hard link": func(path string) error {
			return errors.Join(os.WriteFile(path+".other", nil, 0o600), os.Link(path+".other", path))
		},
		"a symbolic link": func(path string) error { return os.Symlink(path+".old", path) },
		"another socket":  func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "socket")
			l, err := listenLocally(path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			want := uint32(nobody)
			if replace != nil {
				want = 0
				if err := errors.Join(os.Rename(path, path+".old"), replace(path)); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.give(nobody, nobody); (err != nil) != (replace != nil) {
				t.Errorf("Give: %v", err)
			}
			var info unix.Stat_t
			if err := unix.Lstat(path, &info); err != nil || info.Uid != want {
				t.Errorf("what has the name belongs to %d, want %d (%v)", info.Uid, want, err)
			}
		})
	}
}
