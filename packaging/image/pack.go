package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// pack writes the files below a directory into a tar archive, in the order of their names, owned by
// root and with the time made. Hard links stay hard links.
func pack(out io.Writer, root string, made time.Time) error {
	archive := tar.NewWriter(out)
	first := make(map[uint64]string) // the first name of a file, by its inode
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		header.Name = name
		if d.IsDir() {
			header.Name += "/"
		}
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		header.ModTime, header.AccessTime, header.ChangeTime = made, time.Time{}, time.Time{}
		header.Format = tar.FormatUSTAR
		stat := info.Sys().(*syscall.Stat_t)
		if before, ok := first[stat.Ino]; ok && info.Mode().IsRegular() {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, before, 0
			return archive.WriteHeader(header)
		}
		first[stat.Ino] = name
		if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(archive, file)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}
