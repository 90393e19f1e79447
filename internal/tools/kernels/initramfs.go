package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// passwd contains the user tcpdump, which Debian's tcpdump switches to.
const passwd = `root:x:0:0::/:/bin/sh
nobody:x:65534:65534::/:/bin/sh
tcpdump:x:100:100::/:/bin/sh
`

// writeInitramfs writes the kernel's first file system: the built programs, the plan, the kernel's
// modules, the tools, and the testdata of each package beside its test binary.
func (k kernel) writeInitramfs(ctx context.Context, path string, tests []test) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	a := &archive{w: cpio.NewWriter(buffer), added: make(map[string]bool)}

	a.addTree("", k.arch.built())
	a.addTree(sourceDir+"/testdata", "testdata")
	for _, t := range tests {
		a.addTree(filepath.Join(sourceDir, t.Package, "testdata"), filepath.Join(t.Package, "testdata"))
	}
	a.addTools(k.arch)
	a.add("etc/passwd", cpio.TypeReg|0o644, []byte(passwd))
	modules, err := k.modules(ctx)
	if err != nil {
		return err
	}
	for i, m := range modules {
		// guest.go loads them uncompressed. xz copies a file that is not compressed.
		data, err := output(ctx, "", "xz", "--decompress", "--stdout", "--force", m)
		if err != nil {
			return err
		}
		a.add(fmt.Sprintf("%s/%02d-%s", moduleDir, i, filepath.Base(m)), cpio.TypeReg|0o644, []byte(data))
	}
	p, err := json.Marshal(plan{Kernel: k.version, Report: k.arch.device, Tests: tests})
	if err != nil {
		return err
	}
	a.add(planFile, cpio.TypeReg|0o644, p)
	return errors.Join(a.err, a.w.Close(), buffer.Flush())
}

// An archive is the initramfs. err keeps the first error.
type archive struct {
	w     *cpio.Writer
	err   error
	added map[string]bool
}

// add adds a file, and before it the directories above it, which the kernel does not make. Names
// are relative.
func (a *archive) add(name string, mode cpio.FileMode, data []byte) {
	if a.added[name] || a.err != nil {
		return
	}
	a.added[name] = true
	if dir := filepath.Dir(name); dir != "." {
		a.add(dir, cpio.TypeDir|0o755, nil)
	}
	if a.err = a.w.WriteHeader(&cpio.Header{Name: name, Mode: mode, Size: int64(len(data))}); a.err == nil {
		_, a.err = a.w.Write(data)
	}
}

// addFile adds a file or a link.
func (a *archive) addFile(name, path string) {
	if target, err := os.Readlink(path); err == nil {
		a.add(name, cpio.TypeSymlink|0o777, []byte(target))
		return
	}
	data, err := os.ReadFile(path)
	a.err = errors.Join(a.err, err)
	a.add(name, cpio.TypeReg|0o755, data)
}

// addTree adds the files below a directory, which need not exist.
func (a *archive) addTree(name, dir string) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			a.addFile(name+strings.TrimPrefix(path, dir), path)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		a.err = errors.Join(a.err, err)
	}
}
