package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A plan is what the guest has to do; it is /plan.json in the initramfs.
type plan struct {
	Kernel string // which of the kernels it is
	Tests  []test
}

// A test is the test binary of a package.
type test struct {
	Package string // its directory, relative to the root of the module
	Binary  string
	Run     string // which tests, as go test -run takes it
	names   []string
}

// Programs in the guest: the one that the tests start, Go's that turns what tests print into JSON,
// and this one, which is the guest's /init.
const (
	xdpcap      = "xdpcap"
	test2json   = "test2json"
	initProgram = "init"
)

// testDir has what is tested, the same for all kernels of an architecture.
func (a *architecture) testDir() string { return filepath.Join(workDir, "tests-"+a.name) }

// binary is the path of the test binary of a package.
func (a *architecture) binary(pkg string) string {
	return filepath.Join(a.testDir(), strings.ReplaceAll(pkg, "/", "-")+".test")
}

// build builds the programs of the guest, and the test binaries of these packages.
func (a *architecture) build(ctx context.Context, packages []string) error {
	if err := os.RemoveAll(a.testDir()); err != nil {
		return err
	}
	os.Setenv("CGO_ENABLED", "0") // the guest has no C library
	os.Setenv("GOARCH", a.name)
	// Stripped of what only a debugger reads, because they are copied into the guest's memory.
	build := func(pkg, path string, how ...string) error {
		_, err := output(ctx, "", "go", append(how, "-ldflags=-s -w", "-o", path, pkg)...)
		return err
	}
	for name, pkg := range map[string]string{xdpcap: "./cmd/xdpcap", test2json: "cmd/test2json", initProgram: "./internal/tools/kernels"} {
		if err := build(pkg, filepath.Join(a.testDir(), name), "build"); err != nil {
			return err
		}
	}
	for _, pkg := range packages {
		if err := build("./"+pkg, a.binary(pkg), "test", "-c"); err != nil {
			return err
		}
		if _, err := os.Stat(a.binary(pkg)); err != nil { // go test -c makes none of a package without tests
			return fmt.Errorf("%s has no tests", pkg)
		}
	}
	return nil
}
