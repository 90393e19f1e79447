package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// tools are the programs that tests call, and toolPackages have them.
var (
	tools        = []string{"ip", "tcpdump", "capinfos", "tshark", "dumpcap"}
	toolPackages = []string{"iproute2", "tcpdump", "tshark"}
)

// toolsRoot is the directory below which the tools are: for this machine's architecture those that
// are installed, for another one Debian's packages.
func (a *architecture) toolsRoot() string {
	if a.name == runtime.GOARCH {
		return "/"
	}
	return filepath.Join(workDir, "tools-"+a.name, "root")
}

// getTools downloads the tools of another architecture, with all packages that they depend on, of
// the version of Debian that this machine runs.
func (a *architecture) getTools(ctx context.Context) error {
	root := a.toolsRoot()
	if root == "/" {
		return nil
	}
	suite, err := output(ctx, "", "sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
	if err != nil {
		return err
	}
	return unpackOnce(ctx, root, a, strings.TrimSpace(suite), func(apt *apt) error {
		// For dpkg nothing is installed there, so apt downloads all of it.
		status, archives := filepath.Join(apt.dir, "status"), filepath.Join(apt.dir, "archives")
		if err := os.WriteFile(status, nil, 0o644); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
			return err
		}
		_, err := apt.run("apt-get", append([]string{"--quiet", "--yes", "--download-only", "--no-install-recommends",
			"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + archives, "-o", "Debug::NoLocking=1",
			"install"}, toolPackages...)...)
		if err != nil {
			return err
		}
		packages, err := filepath.Glob(filepath.Join(archives, "*.deb"))
		if err != nil {
			return err
		}
		for _, p := range packages {
			if err := os.Rename(p, filepath.Join(apt.dir, filepath.Base(p))); err != nil {
				return err
			}
		}
		return nil
	})
}

// findTool returns the path of a tool.
func findTool(root, tool string) (string, error) {
	if root == "/" {
		return exec.LookPath(tool)
	}
	for _, dir := range []string{"usr/bin", "bin", "usr/sbin", "sbin"} {
		path := filepath.Join(root, dir, tool)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in %s", tool, root)
}

// libraries returns the paths below a root of the shared libraries that a program needs, the first
// of them the program that loads the others. It reads them from the files, because ldd can look
// only at those of this machine's architecture.
func (a *architecture) libraries(root, program string) ([]string, error) {
	loader, err := loaderOf(program)
	if err != nil {
		return nil, err
	}
	all := []string{loader}
	seen := map[string]bool{filepath.Base(loader): true}
	for next := []string{program}; len(next) > 0; next = next[1:] {
		needed, err := neededBy(next[0])
		if err != nil {
			return nil, err
		}
		for _, name := range needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			lib := a.findLibrary(root, name)
			if lib == "" {
				return nil, fmt.Errorf("%s needs %s, which is not below %s", next[0], name, root)
			}
			all = append(all, lib)
			next = append(next, filepath.Join(root, lib))
		}
	}
	return all, nil
}

// neededBy returns the names of the libraries that a program or library names itself.
func neededBy(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	return file.ImportedLibraries()
}

// loaderOf returns the path of the program that loads the libraries of another one.
func loaderOf(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	section := file.Section(".interp")
	if section == nil {
		return "", fmt.Errorf("%s has no section .interp", path)
	}
	loader, err := section.Data()
	return strings.TrimRight(string(loader), "\x00"), err
}

// findLibrary returns where below a root a library is, in the directories that Debian's loader
// looks into without a configuration; "" if it is not there.
func (a *architecture) findLibrary(root, name string) string {
	for _, dir := range []string{"/lib/" + a.triple, "/usr/lib/" + a.triple, "/lib", "/usr/lib"} {
		if _, err := os.Stat(filepath.Join(root, dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return ""
}
