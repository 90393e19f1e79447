package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A kernel is one of Debian's: the newest one on which a package of a suite depends.
type kernel struct {
	version string // as `make test-kernels KERNEL=` takes it
	suite   string // of Debian's archive
	name    string // of the package
	extra   bool   // tested on request only
	arch    *architecture
}

// The kernels come from the suites' security updates: their lists are short, and users are told to
// run these kernels. Debian has no kernel between 5.10 and 6.1. Linux 5.10 has neither XDP for
// packets of several buffers nor live frames, which came with 5.18. The real-time kernels have the
// same versions.
var kernels = []kernel{
	{"6.1", "bookworm-security", "linux-image-cloud-amd64", false, amd64},
	{"6.12", "bookworm-security", "linux-image-6.12-cloud-amd64", false, amd64},
	{"5.10", "bullseye-security", "linux-image-cloud-amd64", true, amd64},
	{"newest", "trixie-backports", "linux-image-cloud-amd64", true, amd64},
	{"6.1-rt", "bookworm-security", "linux-image-rt-amd64", true, amd64},
	{"6.12-rt", "bookworm-security", "linux-image-6.12-rt-amd64", true, amd64},
	{"newest-rt", "trixie-backports", "linux-image-rt-amd64", true, amd64},
	{"arm64", "bookworm-security", "linux-image-6.12-cloud-arm64", true, arm64},
}

// choose returns the kernels of these versions; without versions, all that are not extra.
func choose(versions []string) (chosen []kernel, err error) {
	for _, v := range versions {
		i := slices.IndexFunc(kernels, func(k kernel) bool { return k.version == v })
		if i < 0 {
			return nil, fmt.Errorf("kernel %q: must be one of %v", v, known())
		}
		chosen = append(chosen, kernels[i])
	}
	if len(versions) == 0 {
		chosen = slices.DeleteFunc(slices.Clone(kernels), func(k kernel) bool { return k.extra })
	}
	return chosen, nil
}

// maySkip reports whether chosen tests may be skipped on this kernel: a kernel that is tested on
// request may lack something that they need. The kernel for arm64 lacks nothing, because it has the
// version of an always tested one.
func (k kernel) maySkip() bool { return k.extra && k.arch != arm64 }

func known() (versions []string) {
	for _, k := range kernels {
		versions = append(versions, k.version)
	}
	return versions
}

func (k kernel) dir() string { return filepath.Join(workDir, k.version) }

// root is the directory that the package is unpacked into.
func (k kernel) root() string { return filepath.Join(k.dir(), "root") }

// image returns the path of the kernel itself.
func (k kernel) image() (string, error) {
	for _, place := range []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"} {
		if found, _ := filepath.Glob(filepath.Join(k.root(), place)); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("no vmlinuz in %s", k.root())
}

// get downloads the packages of the kernel and unpacks them.
func (k kernel) get(ctx context.Context) error {
	return unpackOnce(ctx, k.root(), k.arch, k.suite, func(a *apt) error {
		// An image may depend on a binary, modules, and the list of what is built in.
		list, err := a.run("apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
			"--no-breaks", "--no-replaces", k.name)
		if err != nil {
			return err
		}
		_, err = a.run("apt-get", append([]string{"--quiet", "download"}, partsIn(list)...)...)
		return err
	})
}

// partsIn returns the packages of a kernel in a list of apt-cache depends: each has a line that
// begins with its name.
func partsIn(list string) (names []string) {
	for line := range strings.Lines(list) {
		if name := strings.TrimSpace(line); strings.HasPrefix(line, "linux-") && name != "linux-base" {
			names = append(names, name)
		}
	}
	return names
}

// unpackOnce unpacks packages of a suite into the directory root, without installing them: those
// that download has placed in apt's directory. If root exists, an earlier run has done so.
func unpackOnce(ctx context.Context, root string, arch *architecture, suite string, download func(*apt) error) error {
	if _, err := os.Stat(root); err == nil {
		return nil
	}
	mirror, err := mirrorOf(ctx, suite)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(filepath.Dir(root), "apt"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a := &apt{ctx, dir, arch}
	line := fmt.Sprintf("deb [arch=%s signed-by=%s] %s %s main\n", arch.name, keyring, mirror, suite)
	if err := os.WriteFile(a.sources(), []byte(line), 0o644); err != nil {
		return err
	}
	if _, err := a.run("apt-get", "--quiet", "--error-on=any", "update"); err != nil {
		return err
	}
	if err := download(a); err != nil {
		return err
	}
	if _, err := output(ctx, dir, "sh", "-ec", "for p in $(find . -name '*.deb'); do dpkg-deb --extract $p root; done"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "root"), root)
}

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// mirrorOf returns the address from which the machine gets this suite or another of the same
// archive.
func mirrorOf(ctx context.Context, suite string) (string, error) {
	out, err := output(ctx, "", "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	archive := "/debian/"
	if strings.HasSuffix(suite, "-security") {
		archive = "/debian-security/"
	}
	for _, uri := range strings.Fields(out) {
		if strings.HasSuffix(uri, archive) {
			return uri, nil
		}
	}
	return "", fmt.Errorf("find Debian's %s: no source of this machine's apt ends in %s", suite, archive)
}

// apt runs apt in a directory, with one suite as its only source and with separate state, so that
// the machine's stays unchanged. It uses the machine's other settings, a proxy for example.
type apt struct {
	ctx  context.Context
	dir  string
	arch *architecture
}

func (a *apt) sources() string { return filepath.Join(a.dir, "sources.list") }

// run runs one of apt's programs.
func (a *apt) run(name string, args ...string) (string, error) {
	return output(a.ctx, a.dir, name, append([]string{
		"-o", "Dir::Etc::SourceList=" + a.sources(),
		"-o", "Dir::Etc::SourceParts=-",
		"-o", "Dir::State=" + a.dir,
		"-o", "Dir::State::status=/dev/null", // nothing is installed
		"-o", "Dir::Cache=" + a.dir,
		"-o", "Acquire::Languages=none",
		"-o", "APT::Architecture=" + a.arch.name,
		"-o", "APT::Sandbox::User=root", // apt's own user may not be allowed to enter the directory
	}, args...)...)
}

// output runs a program and returns its standard output. If it fails, the error has all its output.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, &stdout, &stderr)
	}
	return stdout.String(), nil
}
