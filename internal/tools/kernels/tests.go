package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A plan is what the guest has to do; it is /plan.json in the initramfs.
type plan struct {
	Kernel string // which of the kernels it is
	Run    string // regular expression of the tests' names; "": all
	Tests  []test
}

// A test is the test binary of a package.
type test struct {
	Package string // its directory, relative to the root of the module
	Binary  string
}

const testnetPath = "github.com/xdpcap/xdpcap/internal/testnet"

// buildTests builds the test binaries of the packages whose tests use testnet.
// The others' tests do not ask the kernel for anything.
func buildTests(ctx context.Context, dir string) ([]test, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	os.Setenv("CGO_ENABLED", "0") // nobody else's libraries are in the guest
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}} {{.ImportPath}} {{join .TestImports ","}},{{join .XTestImports ","}}{{end}}`
	list, err := output(ctx, "", "go", "list", "-f", format, "./...")
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var tests []test
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if f[1] != testnetPath && !slices.Contains(strings.Split(f[2], ","), testnetPath) {
			continue
		}
		rel, err := filepath.Rel(root, f[0])
		if err != nil {
			return nil, err
		}
		t := test{rel, filepath.Join(dir, strings.ReplaceAll(rel, "/", "-")+".test")}
		// Stripped of what only a debugger reads: it is copied into the guest's memory.
		if _, err := output(ctx, "", "go", "test", "-c", "-ldflags=-s -w", "-o", t.Binary, f[1]); err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no package's tests use %s", testnetPath)
	}
	return tests, nil
}
