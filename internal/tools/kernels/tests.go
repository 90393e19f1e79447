package main

import (
	"context"
	"os"
	"path/filepath"
)

// A plan is what the guest has to do; it is /plan.json in the initramfs.
type plan struct {
	Kernel string // which of the kernels it is
	Report string // the device that takes the report
	Tests  []test
}

// A test is the test binary of a package.
type test struct {
	Package string // its directory, relative to the root of the module
	Run     string // which tests, as go test -run takes it
	names   []string
}

// Where things are in the guest.
const (
	planFile   = "plan.json"
	moduleDir  = "modules"
	sourceDir  = "src"  // the root of the module, with nothing in it but tests and what they read
	testBinary = "test" // in the directory of its package
)

// built is the directory of what is built from this module. It lies as in the guest, and is the
// same for all kernels of an architecture.
func (a *architecture) built() string { return filepath.Join(workDir, "built-"+a.name) }

// build builds the programs of the guest: xdpcap, Go's test2json, which turns what tests print into
// JSON, this one, and the test binaries of these packages. They are stripped of what only a
// debugger reads, because they are copied into the guest's memory.
func (a *architecture) build(ctx context.Context, packages []string) error {
	if err := os.RemoveAll(a.built()); err != nil {
		return err
	}
	os.Setenv("CGO_ENABLED", "0") // the guest has no C library
	os.Setenv("GOARCH", a.name)
	if _, err := output(ctx, "", "go", "build", "-ldflags=-s -w", "-o", filepath.Join(a.built(), "bin")+"/",
		"./cmd/xdpcap", "cmd/test2json", "./internal/tools/kernels"); err != nil {
		return err
	}
	for _, pkg := range packages {
		path := filepath.Join(a.built(), sourceDir, pkg, testBinary)
		if _, err := output(ctx, "", "go", "test", "-c", "-ldflags=-s -w", "-o", path, "./"+pkg); err != nil {
			return err
		}
	}
	return nil
}
