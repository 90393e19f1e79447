package outfile

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A user who may only read a file, or put another one beside it, cannot prevent writing to it.
func TestStrangersLocks(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	const somebody = 12345
	for _, test := range []struct {
		name   string
		owner  int
		beside string // the suffix of the file that is locked
		flags  int
		lock   func(fd int) error
		free   bool
	}{
		{"flock of a reader", 0, "", os.O_RDONLY, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX) }, true},
		{"lock for reading", 0, "", os.O_RDONLY, func(fd int) error { return setLock(fd, unix.F_RDLCK) }, true},
		{"lock of a writer", 0, "", os.O_RDWR, func(fd int) error { return setLock(fd, unix.F_WRLCK) }, false},
		{"file of another user", somebody, Partial, os.O_RDWR, func(fd int) error { return setLock(fd, unix.F_WRLCK) }, true},
		{"file of root", 0, Partial, os.O_RDWR, func(fd int) error { return setLock(fd, unix.F_WRLCK) }, false},
	} {
		path := filepath.Join(t.TempDir(), "out")
		mustWrite(t, path, "earlier")
		mustWrite(t, path+test.beside, "earlier")
		must(t, os.Chown(path+test.beside, test.owner, test.owner))
		other, err := os.OpenFile(path+test.beside, test.flags, 0)
		must(t, err)
		defer other.Close()
		must(t, test.lock(int(other.Fd())))
		f, err := Open(path, Options{})
		if (err == nil) != test.free {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil {
			checkError(t, err, "another program is writing to")
			continue
		}
		f.Close()
	}
}
