package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Where things are in the guest.
const (
	planFile  = "plan.json"
	moduleDir = "modules"
	sourceDir = "src" // the root of the module, with nothing in it but tests and what they read
)

// writeInitramfs writes what the kernel starts from: this program as /init, the plan, the kernel's
// modules, and each test binary in its package's directory, with the testdata of the package.
func writeInitramfs(path string, k kernel, p plan) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	c := &cpio{w: buffer, dirs: make(map[string]bool)}

	c.addFile("init", filepath.Join(k.arch.testDir(), initProgram))
	c.add("dev/console", unix.S_IFCHR|0o600, unix.Mkdev(5, 1), nil)
	modules, err := k.modules()
	if err != nil {
		return err
	}
	for i, m := range modules {
		c.add(fmt.Sprintf("%s/%02d-%s", moduleDir, i, m.name), unix.S_IFREG|0o644, 0, m.data)
	}
	if err := c.addTools(k.arch); err != nil {
		return err
	}
	c.add("etc/passwd", unix.S_IFREG|0o644, 0, []byte(passwd))
	c.addFile("bin/"+xdpcap, filepath.Join(k.arch.testDir(), xdpcap))
	c.addTree(sourceDir+"/testdata", "testdata")
	for i := range p.Tests {
		t := &p.Tests[i]
		in := filepath.Join(sourceDir, t.Package)
		c.addTree(in+"/testdata", filepath.Join(t.Package, "testdata"))
		c.addFile(in+"/"+filepath.Base(t.Binary), t.Binary)
	}
	list, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c.add(planFile, unix.S_IFREG|0o644, 0, list)
	c.close()
	return errors.Join(c.err, buffer.Flush())
}

// cpio writes an archive in the kernel's "newc" format
// (Documentation/driver-api/early-userspace/buffer-format.rst). err keeps the first error.
type cpio struct {
	w     io.Writer
	err   error
	dirs  map[string]bool
	inode int
}

// add adds a file, and before it the directories above it. Names are relative.
func (c *cpio) add(name string, mode uint32, device uint64, data []byte) {
	if dir := filepath.Dir(name); dir != "." && !c.dirs[dir] {
		c.dirs[dir] = true
		c.add(dir, unix.S_IFDIR|0o755, 0, nil)
	}
	c.inode++
	c.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, unix.Major(device), unix.Minor(device), len(name)+1, 0, name))
	c.write(data)
}

// write pads to a multiple of four bytes, as the format requires after the name and after the data.
func (c *cpio) write(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if c.err == nil {
			_, c.err = c.w.Write(part)
		}
	}
}

func (c *cpio) addFile(name, path string) {
	data, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err = errors.Join(err, statErr); err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	c.add(name, unix.S_IFREG|uint32(info.Mode().Perm()), 0, data)
}

// passwd contains the user tcpdump, which Debian's tcpdump switches to.
const passwd = `root:x:0:0::/:/bin/sh
nobody:x:65534:65534::/:/bin/sh
tcpdump:x:100:100::/:/bin/sh
`

// addTools adds the tools that tests call, with the libraries that they need.
func (c *cpio) addTools(arch *architecture) error {
	root := arch.toolsRoot()
	added := make(map[string]bool)
	for _, tool := range tools {
		path, err := findTool(root, tool)
		if err != nil {
			return err
		}
		c.addFile("bin/"+tool, path)
		libraries, err := arch.libraries(root, path)
		if err != nil {
			return err
		}
		for _, lib := range libraries {
			if !added[lib] {
				added[lib] = true
				c.addFile(lib[1:], filepath.Join(root, lib))
			}
		}
	}
	return nil
}

// addTree adds the files below a directory, which need not exist.
func (c *cpio) addTree(name, dir string) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			c.addFile(name+strings.TrimPrefix(path, dir), path)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		c.err = errors.Join(c.err, err)
	}
}

func (c *cpio) close() { c.add("TRAILER!!!", 0, 0, nil) }
