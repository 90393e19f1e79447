package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

const (
	testnetPath = "github.com/xdpcap/xdpcap/internal/testnet"
	ebpfPath    = "github.com/cilium/ebpf"
)

// A goPackage has the fields of `go list -json` that are used here.
type goPackage struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
	relative                  string // its directory, relative to the root of the module
}

// listPackages lists the packages of the module whose root is the directory.
func listPackages(ctx context.Context, root string) ([]goPackage, error) {
	fields := "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles,TestImports,XTestImports"
	out, err := output(ctx, root, "go", "list", fields, "./...")
	if err != nil {
		return nil, err
	}
	return parsePackages(out, root)
}

func parsePackages(list, root string) (all []goPackage, err error) {
	for d := json.NewDecoder(strings.NewReader(list)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		if p.relative, err = filepath.Rel(root, p.Dir); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

func (p goPackage) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// testsImport says whether a file of the package's tests imports another package.
func (p goPackage) testsImport(path string) bool {
	return slices.Contains(p.TestImports, path) || slices.Contains(p.XTestImports, path)
}

// needKernel chooses the packages whose tests need a kernel: those that import testnet, with which
// such tests skip themselves, send packets and recognize the emulated machine. Tests that import
// ebpf and not testnet are an error, because the verifiers of the other kernels would never see
// their programs.
func needKernel(all []goPackage) (chosen []goPackage, err error) {
	var forgotten []string
	for _, p := range all {
		switch {
		case !p.hasTests():
		case p.ImportPath == testnetPath || p.testsImport(testnetPath):
			chosen = append(chosen, p)
		case p.testsImport(ebpfPath):
			forgotten = append(forgotten, p.relative)
		}
	}
	if len(forgotten) > 0 {
		return nil, fmt.Errorf("the tests of %s import %s but not %s, by which packages are chosen: begin those that load programs with testnet.RequireRoot",
			strings.Join(forgotten, ", "), ebpfPath, testnetPath)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no package's tests import %s", testnetPath)
	}
	return chosen, nil
}
