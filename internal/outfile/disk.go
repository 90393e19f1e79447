package outfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// A disk is an open file with the state of the disk that it is on.
type disk struct {
	*os.File
	name string // of the file, for errors
}

// Occupied returns how many bytes of its disk the file occupies; 0 = it cannot be determined.
func (d *disk) Occupied() int64 {
	info, err := d.Stat()
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512 // st_blocks has this unit on every disk
}

// Free returns the number of bytes that this user can still write to the disk.
func (d *disk) Free() (int64, error) {
	s, err := d.statfs()
	return freeBytes(s, d.name, err)
}

// FreeAt returns the number of bytes that this user can write to the disk of the file at a path,
// which need not exist.
func FreeAt(path string) (int64, error) {
	s := new(unix.Statfs_t)
	err := unix.Statfs(path, s)
	if errors.Is(err, unix.ENOENT) {
		err = unix.Statfs(filepath.Dir(path), s)
	}
	return freeBytes(s, path, err)
}

// freeBytes returns the bytes that a file system has left for users. It counts in fragments, whose
// size on FUSE may differ from that of blocks. err is the error of statfs(2) for the file with this
// name.
func freeBytes(s *unix.Statfs_t, name string, err error) (int64, error) {
	if err != nil {
		return 0, fmt.Errorf("ask for the free space on the disk of %s: %w", name, err)
	}
	return int64(s.Bavail) * cmp.Or(s.Frsize, s.Bsize), nil
}

// IsFull reports whether fewer than this many bytes of the disk are free. The file system's reserve
// for root counts as free.
func (d *disk) IsFull(bytes int64) bool {
	s, err := d.statfs()
	return err == nil && s.Blocks > 0 && int64(s.Bfree)*cmp.Or(s.Frsize, s.Bsize) < bytes
}

// ShowsLate reports whether the file system subtracts written bytes from its free space only later,
// because it writes in large transactions.
func (d *disk) ShowsLate() bool {
	const bcachefs, zfs = 0xca451a4e, 0x2fc12fc1
	s, err := d.statfs()
	return err == nil && slices.Contains([]int64{unix.BTRFS_SUPER_MAGIC, bcachefs, zfs}, int64(s.Type))
}

func (d *disk) statfs() (*unix.Statfs_t, error) {
	s := new(unix.Statfs_t)
	return s, control(d.File, func(fd int) error { return unix.Fstatfs(fd, s) })
}

// SyncDisk waits until all files of the disk are synced to it. On btrfs, removed files free their
// room only then.
func (d *disk) SyncDisk() error { return control(d.File, unix.Syncfs) }
