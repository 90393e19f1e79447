package localsocket

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket that is closed leaves alone what has its name by then, and none is made while somebody
// else makes one in the same directory.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Rename(path, path+".old"); err != nil { // its inode is not given to the second one
		t.Fatal(err)
	}
	second, err := Listen(path)
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
	if l, err := Listen(path); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("beside another one: %v", err)
		if err == nil {
			l.Close()
		}
	}
}
