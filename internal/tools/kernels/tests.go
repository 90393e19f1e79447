package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// A plan is what the guest has to do; it is /plan.json in the initramfs.
type plan struct {
	Kernel string // which of the kernels it is
	Run    string // regular expression that selects tests by name; "" = all
	Tests  []test
}

// A test is the test binary of a package.
type test struct {
	Package string // its directory, relative to the root of the module
	Binary  string
}

// xdpcap is the program itself, which the tests of cmd/xdpcap run.
const xdpcap = "xdpcap"

// initProgram is this program, as the guest's /init.
const initProgram = "init"

// testDir has what is tested, the same for all kernels of an architecture.
func (a *architecture) testDir() string { return filepath.Join(workDir, "tests-"+a.name) }

// buildTests builds xdpcap, the test binaries of the packages that need a kernel and have tests
// that run selects, and the init that runs them.
func buildTests(ctx context.Context, arch *architecture, run string) ([]test, error) {
	dir := arch.testDir()
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	os.Setenv("CGO_ENABLED", "0") // the guest has no C library
	os.Setenv("GOARCH", arch.name)
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	all, err := listPackages(ctx, root)
	if err != nil {
		return nil, err
	}
	chosen, err := needKernel(all, goPackage.readTests)
	if err != nil {
		return nil, err
	}
	if chosen, err = selected(chosen, run, goPackage.readTests); err != nil {
		return nil, err
	}
	// Stripped of what only a debugger reads, because they are copied into the guest's memory.
	for name, pkg := range map[string]string{xdpcap: "./cmd/xdpcap", initProgram: "./internal/tools/kernels"} {
		if _, err := output(ctx, "", "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, name), pkg); err != nil {
			return nil, err
		}
	}
	var tests []test
	for _, p := range chosen {
		t := test{p.relative, filepath.Join(dir, strings.ReplaceAll(p.relative, "/", "-")+".test")}
		if _, err := output(ctx, "", "go", "test", "-c", "-ldflags=-s -w", "-o", t.Binary, p.ImportPath); err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return tests, nil
}
