// Package outfile opens the files for packets, and detects when a file is removed, replaced or
// truncated by another program, or when the reader of a pipe goes away.
package outfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// ErrSpoiled is the kind of error after which the written packets cannot be read from any file.
var ErrSpoiled = errors.New("the file is gone or no longer whole")

// ErrNameTaken is the kind of error for a file that already exists although Options.New is set.
var ErrNameTaken = errors.New("the name is taken")

// ErrNoReader is the kind of error for a FIFO that no process has open for reading.
var ErrNoReader = errors.New("nobody reads from the FIFO")

// A File is appended to. It belongs to one goroutine.
type File struct {
	disk
	path       string      // where Open found or created the file; "" = the caller opened it
	final      string      // the path after Publish; "" = it already has its path
	kernelPath string      // its path when it was opened, as /proc/self/fd has it; "" = unknown
	mode       os.FileMode // its type
	created    bool        // Open created it
	begun      bool        // Begin was called, so that it may have packets
	options    Options
}

// Options are the options of Open.
type Options struct {
	// Atomic gives the file its path only when Publish is called. Until then it is at this path
	// with ".partial" appended.
	Atomic bool
	// New rejects a path with an existing regular file, which Open otherwise overwrites. The error
	// is of the kind ErrNameTaken.
	New bool
	// Regular rejects files that are not regular.
	Regular bool
	// Trust restricts the files that may be opened.
	Trust Trust
}

// Open opens the file at a path for writing, or creates it with permissions for its owner only. A
// regular file is locked against a second Open, by this process or another one, until it is closed
// or the process ends. The lock covers the path and the same with ".partial". The file stays
// unchanged until Begin is called. Open does not wait for the reader of a FIFO: without a reader
// the error is of the kind ErrNoReader.
func Open(path string, o Options) (*File, error) {
	final, rival := "", path+Partial // rival is the other path to which a second Open may write
	if o.Atomic {
		if err := checkReplaceable(path, o.New); err != nil {
			return nil, err
		}
		final, path, rival = path, rival, path
	}
	f, created, err := open(path, o)
	if err != nil {
		return nil, err
	}
	opened, err := newFile(f, path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	opened.path, opened.final, opened.created, opened.options = path, final, created, o
	opened.kernelPath = opened.currentPath()
	if opened.mode&(os.ModeDevice|os.ModeCharDevice) != 0 {
		control(f, func(fd int) error { return unix.SetNonblock(fd, false) }) // a write to a busy device waits, and does not fail
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

// open opens a file, and reports whether it has created it.
func open(path string, o Options) (f *os.File, created bool, err error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NONBLOCK // O_NONBLOCK does not wait for a FIFO's reader
	f, err = o.Trust.open(path, flags|os.O_EXCL)
	if err == nil {
		return f, true, nil
	}
	if errors.Is(err, os.ErrExist) {
		if at, err := os.Stat(path); o.New && err == nil && at.Mode().IsRegular() {
			return nil, false, nameTaken(path)
		}
		if target, dangles := danglingLink(path); dangles {
			return nil, false, fmt.Errorf("open %s: it is a symbolic link to %s, which does not exist: create that file, or choose another one",
				path, target)
		}
		// O_CREATE stays set, because only with it the kernel checks fs.protected_regular and
		// fs.protected_fifos.
		f, err = o.Trust.open(path, flags)
	}
	switch {
	case errors.Is(err, unix.ENXIO) && (o.Regular || o.Atomic):
		return nil, false, notRegular(path)
	case errors.Is(err, unix.ENXIO):
		return nil, false, message.Errorf(ErrNoReader, "open %s: nobody reads from it", path)
	case err != nil:
		return nil, false, explainOpen(path, err)
	}
	if err := o.Trust.check(f); err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, false, nil
}

// Opened returns a File for a file that the caller opened, such as standard output. It is not
// locked, emptied or closed, and Check does not check it unless it is a pipe.
func Opened(f *os.File, name string) (*File, error) { return newFile(f, name) }

func newFile(f *os.File, name string) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, WriteError(name, err)
	}
	return &File{disk: disk{f, name}, mode: info.Mode().Type()}, nil
}

// IsNew reports whether Open created the file.
func (f *File) IsNew() bool { return f.created }

// isOurs reports whether this is a regular file that Open opened, so that only this File writes to
// it.
func (f *File) isOurs() bool { return f.path != "" && f.mode.IsRegular() }

// Give changes the user and group of a file that Open created, unless it is already that user's.
func (f *File) Give(uid, gid int) error {
	info, err := f.Stat()
	if !f.created || err == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(uid) {
		return nil
	}
	if err := f.Chown(uid, gid); err != nil {
		return fmt.Errorf("change the owner of %s: %w", f.name, cause(err))
	}
	return nil
}

// Begin truncates a regular file to 0 bytes, and enlarges the buffer of a pipe.
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

// Check returns an error if the reader of a pipe has gone away, if the path of a regular file now
// leads to another file, or if its size differs from `size`, the bytes that this process has
// written.
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
		// A network file system may report a size from before the last writes.
		f.Sync()
		if now, err = f.Stat(); err != nil {
			return WriteError(f.name, err)
		}
	}
	switch {
	case isRemoved(now):
		return f.removed()
	case now.Size() != size:
		return message.Errorf(ErrSpoiled, "%s was changed by another program while packets were written to it: "+
			"it has %d bytes instead of %d, and cannot be read", f.name, now.Size(), size)
	}
	at, err := os.Stat(f.path)
	moved := errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, at)
	if errors.Is(err, unix.EACCES) { // this user may not search the directory any more
		moved = f.currentPath() != f.kernelPath
	}
	if moved {
		// It may have been removed since the first Stat, and not renamed.
		if again, err := f.Stat(); err == nil && isRemoved(again) {
			return f.removed()
		}
		return fmt.Errorf("%s was renamed or replaced: the packets so far are in the renamed file",
			f.name)
	}
	return nil // also if the path cannot be looked up for another reason
}

// currentPath returns the current path of the file as /proc/self/fd has it; "" = unknown.
func (f *File) currentPath() (path string) {
	control(f.File, func(fd int) (err error) {
		path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return err
	})
	return path
}

// isRemoved reports whether a file has no name left by which its packets could be read.
func isRemoved(info os.FileInfo) bool { return info.Sys().(*syscall.Stat_t).Nlink == 0 }

func (f *File) removed() error {
	return message.Errorf(ErrSpoiled, "%s was removed or replaced while packets were written to it: they are lost", f.name)
}

// IsRegular reports whether it is a regular file rather than a pipe, terminal or device.
func (f *File) IsRegular() bool { return f.mode.IsRegular() }

// Finish waits until a regular file is on disk, and calls Check for the last time.
func (f *File) Finish(size int64) error {
	if err := f.Store(); err != nil {
		return err
	}
	return f.Check(size)
}

// Store waits until a regular file is on disk. It may be called while another goroutine writes to
// another file.
func (f *File) Store() error {
	if !f.mode.IsRegular() {
		return nil
	}
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("sync %s to disk: %w: packets may be missing from it", f.name, cause(err))
	}
	return nil
}

// Abandon makes Close remove a file that Open created, as if it was never begun. Call it only if
// the file is still empty.
func (f *File) Abandon() { f.begun = false }

// Close closes a file of Open. If Open created it and it was never begun, it is removed, provided
// that it is still empty and has its path.
func (f *File) Close() error {
	if f.path == "" {
		return nil
	}
	if f.created && !f.begun && f.Check(0) == nil {
		os.Remove(f.path)
	}
	f.unlock()
	err := f.File.Close()
	if err == nil || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return WriteError(f.name, err)
}
