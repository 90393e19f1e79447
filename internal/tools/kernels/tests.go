package main

import (
	"context"
	"os"
	"path/filepath"
)

// A plan has the tests that the guest runs; it is /plan.json in the initramfs.
type plan struct {
	Kernel string // its version, as in kernels
	Report string // the device that takes the report
	Tests  []test
}

// A test is the test binary of a package.
type test struct {
	Package string   // its directory, relative to the root of the module
	Run     string   // which tests, as go test -run takes it
	names   []string // of the tests
}

// Paths in the guest, below its root.
const (
	planFile   = "plan.json"
	moduleDir  = "modules"
	sourceDir  = "src"  // the root of the Go module, with only the tests and their testdata
	testBinary = "test" // in the directory of its package
)

// built returns the directory of the programs and tests that are built from this module. Its files
// have the paths of the guest, and are the same for all kernels of an architecture.
func (a *architecture) built() string { return filepath.Join(workDir, "built-"+a.name) }

// build builds the programs of the guest: xdpcap, this one, the test binaries of these packages,
// and Go's test2json, which converts their output to JSON. They are stripped of data for debuggers,
// because they are copied into the guest's memory.
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
