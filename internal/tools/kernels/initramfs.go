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

// Where things are in the guest.
const (
	planFile  = "plan.json"
	moduleDir = "modules"
	sourceDir = "src" // the root of the module, with nothing in it but tests and what they read
)

// passwd contains the user tcpdump, which Debian's tcpdump switches to.
const passwd = `root:x:0:0::/:/bin/sh
nobody:x:65534:65534::/:/bin/sh
tcpdump:x:100:100::/:/bin/sh
`

// writeInitramfs writes what the kernel starts from: this program as /init, the plan, the kernel's
// modules, and each test binary in its package's directory, with the testdata of the package.
func writeInitramfs(ctx context.Context, path string, k kernel, p plan) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	a := &archive{w: cpio.NewWriter(buffer), added: make(map[string]bool)}

	for _, name := range []string{initProgram, "bin/" + xdpcap, "bin/" + test2json} {
		a.addFile(name, filepath.Join(k.arch.testDir(), filepath.Base(name)))
	}
	modules, err := k.modules(ctx)
	if err != nil {
		return err
	}
	for i, m := range modules {
		data, err := readModule(m)
		if err != nil {
			return fmt.Errorf("read the kernel module %s: %w", m, err)
		}
		a.add(fmt.Sprintf("%s/%02d-%s", moduleDir, i, filepath.Base(m)), cpio.TypeReg|0o644, data)
	}
	if err := a.addTools(k.arch); err != nil {
		return err
	}
	a.add("etc/passwd", cpio.TypeReg|0o644, []byte(passwd))
	a.addTree(sourceDir+"/testdata", "testdata")
	for _, t := range p.Tests {
		in := filepath.Join(sourceDir, t.Package)
		a.addTree(in+"/testdata", filepath.Join(t.Package, "testdata"))
		a.addFile(in+"/"+filepath.Base(t.Binary), t.Binary)
	}
	list, err := json.Marshal(p)
	if err != nil {
		return err
	}
	a.add(planFile, cpio.TypeReg|0o644, list)
	return errors.Join(a.err, a.w.Close(), buffer.Flush())
}

// An archive is the initramfs. err keeps the first error.
type archive struct {
	w     *cpio.Writer
	err   error
	added map[string]bool
}

// add adds a file, and before it the directories above it, which the kernel does not make by
// itself. Names are relative. A file that two programs need is added once.
func (a *archive) add(name string, mode cpio.FileMode, data []byte) {
	if a.added[name] || a.err != nil {
		return
	}
	a.added[name] = true
	if dir := filepath.Dir(name); dir != "." {
		a.add(dir, cpio.TypeDir|0o755, nil)
	}
	a.err = errors.Join(a.err, a.w.WriteHeader(&cpio.Header{Name: name, Mode: mode, Size: int64(len(data))}))
	if a.err == nil && len(data) > 0 {
		_, a.err = a.w.Write(data)
	}
}

// addFile adds a file or a link.
func (a *archive) addFile(name, path string) {
	info, err := os.Lstat(path)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	if target, err := os.Readlink(path); err == nil {
		a.add(name, cpio.TypeSymlink|0o777, []byte(target))
		return
	}
	data, err := os.ReadFile(path)
	a.err = errors.Join(a.err, err)
	a.add(name, cpio.TypeReg|cpio.FileMode(info.Mode().Perm()), data)
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
