// Package outfile opens the files that packets are written to, and looks after them while others
// may remove, replace or truncate them, or leave the other end of a pipe.
package outfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ErrSpoiled is the kind of error after which what was written cannot be read in any file.
var ErrSpoiled = errors.New("the file is gone or no longer whole")

// ErrNameTaken is the kind of error that there is a file already where there must not be one.
var ErrNameTaken = errors.New("the name is taken")

// ErrNoReader is the kind of error that nobody has opened a FIFO for reading.
var ErrNoReader = errors.New("nobody reads from the FIFO")

// A File is written to from its end on. It belongs to one goroutine.
type File struct {
	*os.File
	name    string      // for errors
	path    string      // where Open found or made it; "" = another one has opened the file
	final   string      // the path that Publish gives it; "" = it has it
	mode    os.FileMode // its type
	made    bool        // by Open
	begun   bool
	options Options
}

// Options say how Open makes a file.
type Options struct {
	// Atomic lets the file have its path only when Publish is called, and ".partial" behind that
	// before.
	Atomic bool
	// New refuses a path where there is a regular file already, which Open otherwise writes over.
	// The error is of the kind ErrNameTaken.
	New bool
	// Regular refuses what is no regular file.
	Regular bool
	// Trust says which files may be written to.
	Trust Trust
}

// Open opens the file at a path for writing, or makes it, for its owner alone. A regular file is
// locked against a second Open, by this process or another one, until it is closed or the process
// ends, and with it the path that it has now or will have with Atomic. It is left as it is until
// Begin is called. A FIFO that nobody reads from is not waited for: that is an ErrNoReader.
func Open(path string, o Options) (*File, error) {
	final, rival := "", path+Partial
	if o.Atomic {
		if err := checkReplaceable(path, o.New); err != nil {
			return nil, err
		}
		final, path, rival = path, rival, path
	}
	f, made, err := open(path, o)
	if err != nil {
		return nil, err
	}
	opened, err := newFile(f, path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	opened.path, opened.final, opened.made, opened.options = path, final, made, o
	if opened.mode&(os.ModeDevice|os.ModeCharDevice) != 0 {
		control(f, func(fd int) error { return unix.SetNonblock(fd, false) }) // a device may be slow
	}
	switch {
	case opened.IsRegular():
		err = opened.lock(rival)
	case o.Regular || o.Atomic:
		err = notRegular(path)
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// open opens a file, and tells whether it has made it.
func open(path string, o Options) (f *os.File, made bool, err error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NONBLOCK // which does not wait for a FIFO's reader
	f, err = o.Trust.open(path, flags|os.O_EXCL)
	if err == nil {
		return f, true, nil
	}
	if errors.Is(err, os.ErrExist) {
		if at, err := os.Stat(path); o.New && err == nil && at.Mode().IsRegular() {
			return nil, false, nameTaken(path)
		}
		if target, dangles := danglingLink(path); dangles {
			return nil, false, fmt.Errorf("open %s: it is a symbolic link to %s, which does not exist: make that file, or choose another one",
				path, target)
		}
		// The kernel checks fs.protected_regular and fs.protected_fifos only with O_CREATE.
		f, err = o.Trust.open(path, flags)
	}
	switch {
	case errors.Is(err, unix.ENXIO) && (o.Regular || o.Atomic):
		return nil, false, notRegular(path)
	case errors.Is(err, unix.ENXIO):
		return nil, false, xdp.Kind(ErrNoReader, "open %s: nobody reads from it", path)
	case err != nil:
		return nil, false, explainOpen(path, err)
	}
	if err := o.Trust.check(f); err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, false, nil
}

// Opened returns a File of one that somebody else has opened, such as standard output. It is not
// locked, emptied or closed, and it is no concern of Check what happens to it, unless it is a pipe.
func Opened(f *os.File, name string) (*File, error) { return newFile(f, name) }

func newFile(f *os.File, name string) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, WriteError(name, err)
	}
	return &File{File: f, name: name, mode: info.Mode().Type()}, nil
}

// IsNew tells whether Open has made the file.
func (f *File) IsNew() bool { return f.made }

// isOurs tells whether this is a regular file that only this File writes to.
func (f *File) isOurs() bool { return f.path != "" && f.mode.IsRegular() }

// lock takes the file for this process alone, unless another one writes to its rival: one of the
// two will replace the other. A file system that has no locks does without.
func (f *File) lock(rival string) error {
	err := control(f.File, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: another program writes to it, and holds its lock: choose another file", f.name)
	}
	// Whoever comes second finds the lock of the first: both lock their own file before they look.
	if inUse, _ := lookForLock(rival); inUse {
		return fmt.Errorf("lock %s: another program writes to %s, and holds its lock: choose another file", f.name, rival)
	}
	return nil
}

// unlock lets others have the file. To close it does not do that while a child process that was
// just forked has a copy of the descriptor, which it keeps until it executes its program.
func (f *File) unlock() {
	control(f.File, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}

// Give makes a file that Open has made belong to another user and group, unless it is that user's
// already.
func (f *File) Give(uid, gid int) error {
	info, err := f.Stat()
	if !f.made || err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(uid) {
		return nil
	}
	if err := f.Chown(uid, gid); err != nil {
		return fmt.Errorf("give %s to another user: %w", f.name, cause(err))
	}
	return nil
}

// Begin empties a regular file, and widens a pipe.
func (f *File) Begin() error {
	if f.mode&os.ModeNamedPipe != 0 {
		widen(f.File)
	}
	if f.isOurs() {
		if err := f.Truncate(0); err != nil {
			return WriteError(f.name, err)
		}
	}
	f.begun = true
	return f.Check(0)
}

// Check returns an error if the reader of a pipe has gone away, or if a regular file is no longer
// the one at its path, or has not the size that this process has written.
func (f *File) Check(size int64) error {
	if f.mode&os.ModeNamedPipe != 0 && ReaderGone(f.File) {
		return WriteError(f.name, unix.EPIPE)
	}
	if !f.isOurs() {
		return nil
	}
	now, err := f.Stat()
	if err != nil {
		return WriteError(f.name, err)
	}
	if now.Size() != size {
		// A network file system may tell the size before it has got what was written.
		f.Sync()
		if now, err = f.Stat(); err != nil {
			return WriteError(f.name, err)
		}
	}
	switch links := now.Sys().(*syscall.Stat_t).Nlink; {
	case links == 0:
		return xdp.Kind(ErrSpoiled, "%s was removed or replaced while packets were written to it: they are lost", f.name)
	case now.Size() != size:
		return xdp.Kind(ErrSpoiled, "%s was changed by another program while packets were written to it: "+
			"it has %d bytes instead of %d, and cannot be read", f.name, now.Size(), size)
	}
	at, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, at) {
		return fmt.Errorf("%s was renamed, or another file was put in its place: the packets until now are in the file of the new name",
			f.name)
	}
	return nil // also where the path cannot be looked up now
}

// IsRegular tells whether it is a regular file: no pipe, terminal or device.
func (f *File) IsRegular() bool { return f.mode.IsRegular() }

// Finish waits until the disk has a regular file, and checks it for the last time.
func (f *File) Finish(size int64) error {
	if err := f.Store(); err != nil {
		return err
	}
	return f.Check(size)
}

// Store waits until the disk has a regular file. It may be called while another goroutine writes to
// another file.
func (f *File) Store() error {
	if !f.mode.IsRegular() {
		return nil
	}
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("write %s to its disk: %w: packets may be missing from it", f.name, cause(err))
	}
	return nil
}

// Free is how many bytes the file's disk has room for, for this user.
func (f *File) Free() (int64, error) {
	var s unix.Statfs_t
	err := control(f.File, func(fd int) error { return unix.Fstatfs(fd, &s) })
	if err != nil {
		return 0, fmt.Errorf("ask for the free space on the disk of %s: %w", f.name, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// Abandon lets Close remove a file that Open has made, as if it was never begun. It may be called
// where nothing was written to it.
func (f *File) Abandon() { f.begun = false }

// Close closes a file of Open. If Open has made it and it was never begun, it is removed.
func (f *File) Close() error {
	if f.path == "" {
		return nil
	}
	if f.made && !f.begun && f.Check(0) == nil {
		os.Remove(f.path)
	}
	f.unlock()
	err := f.File.Close()
	if err == nil || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return WriteError(f.name, err)
}
