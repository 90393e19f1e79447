package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// readTests returns the source of the tests of a package.
func (p goPackage) readTests() ([]byte, error) {
	var all []byte
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, text...)
	}
	return all, nil
}

var useOfTestnet = regexp.MustCompile(`\btestnet\.([A-Z]\w*)`)

// onlySkips says whether the source of tests uses testnet only to leave tests out on the emulated
// machines.
func onlySkips(tests []byte) bool {
	uses := useOfTestnet.FindAllSubmatch(tests, -1)
	return len(uses) > 0 && !slices.ContainsFunc(uses, func(use [][]byte) bool { return string(use[1]) != "SkipEmulated" })
}

// needKernel chooses the packages whose tests need a kernel: those that import testnet, with which
// such tests skip themselves, send packets and recognize the emulated machine. It leaves out those
// that only skip tests there: their binaries would take the guest's memory, and none of their tests
// has another result there. Tests that import ebpf and not testnet are an error, because the
// verifiers of the other kernels would never see their programs. read returns the source of the
// tests of a package.
func needKernel(all []goPackage, read func(goPackage) ([]byte, error)) (chosen []goPackage, err error) {
	var forgotten []string
	for _, p := range all {
		switch {
		case !p.hasTests():
		case p.ImportPath == testnetPath:
			chosen = append(chosen, p)
		case p.testsImport(testnetPath):
			tests, err := read(p)
			if err != nil {
				return nil, err
			}
			if !onlySkips(tests) {
				chosen = append(chosen, p)
			}
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

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// selected chooses the packages that have a test whose name matches run, as go test -run takes it:
// the others would only be built, and take the guest's memory. With a slash run selects subtests as
// well, and all packages are chosen. read returns the source of the tests of a package.
func selected(all []goPackage, run string, read func(goPackage) ([]byte, error)) (chosen []goPackage, err error) {
	if strings.Contains(run, "/") {
		return all, nil
	}
	names, err := regexp.Compile(run)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	for _, p := range all {
		tests, err := read(p)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(testFunction.FindAllSubmatch(tests, -1), func(m [][]byte) bool { return names.Match(m[1]) }) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no test that needs a kernel matches -run %q", run)
	}
	return chosen, nil
}
