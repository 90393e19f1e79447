package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// As `go list -json` prints them: objects one after the other.
const packageList = `
{"Dir": "/m/internal/testnet", "ImportPath": "github.com/xdpcap/xdpcap/internal/testnet",
 "TestGoFiles": ["a_test.go"], "TestImports": ["testing"]}
{"Dir": "/m/internal/meter", "ImportPath": "github.com/xdpcap/xdpcap/internal/meter",
 "TestGoFiles": ["a_test.go"], "TestImports": ["github.com/cilium/ebpf", "github.com/xdpcap/xdpcap/internal/testnet"]}
{"Dir": "/m/internal/xdp", "ImportPath": "github.com/xdpcap/xdpcap/internal/xdp",
 "XTestGoFiles": ["a_test.go"], "XTestImports": ["github.com/xdpcap/xdpcap/internal/testnet"]}
{"Dir": "/m/internal/pcapng", "ImportPath": "github.com/xdpcap/xdpcap/internal/pcapng",
 "TestGoFiles": ["a_test.go"], "TestImports": ["testing"]}
{"Dir": "/m/internal/tools/demo", "ImportPath": "github.com/xdpcap/xdpcap/internal/tools/demo"}
`

// readTests returns what tests of these packages contain.
func readTests(p goPackage) ([]byte, error) {
	switch p.relative {
	case "text":
		return []byte("func TestText(t *testing.T) {\n\ttestnet.SkipEmulated(t)\n}\n"), nil
	case "both":
		return []byte("testnet.SkipEmulated(t)\ntestnet.MustPair(t)\n"), nil
	}
	return []byte("testnet.MustPair(t)\n"), nil
}

func TestNeedKernel(t *testing.T) {
	for _, test := range []struct {
		name, more string // more packages
		want       []string
		err        string // a part of the error
	}{
		{
			name: "those that use testnet",
			want: []string{"internal/testnet", "internal/meter", "internal/xdp"},
		},
		{
			name: "what is left out on the emulated machines needs no kernel",
			more: `{"Dir": "/m/text", "ImportPath": "x/text", "TestGoFiles": ["a_test.go"], "TestImports": ["github.com/xdpcap/xdpcap/internal/testnet"]}`,
			want: []string{"internal/testnet", "internal/meter", "internal/xdp"},
		},
		{
			name: "but all tests run where one needs a kernel",
			more: `{"Dir": "/m/both", "ImportPath": "x/both", "TestGoFiles": ["a_test.go"], "TestImports": ["github.com/xdpcap/xdpcap/internal/testnet"]}`,
			want: []string{"internal/testnet", "internal/meter", "internal/xdp", "both"},
		},
		{
			name: "assembling instructions needs no kernel",
			more: `{"Dir": "/m/filter", "ImportPath": "x/filter", "TestGoFiles": ["a_test.go"], "TestImports": ["github.com/cilium/ebpf/asm"]}`,
			want: []string{"internal/testnet", "internal/meter", "internal/xdp"},
		},
		{
			name: "loads programs without testnet",
			more: `{"Dir": "/m/filter/ebpf", "ImportPath": "x/filter/ebpf", "TestGoFiles": ["a_test.go"], "TestImports": ["github.com/cilium/ebpf"]}`,
			err:  "the tests of filter/ebpf import github.com/cilium/ebpf but not",
		},
		{
			name: "so do tests in a package of their own",
			more: `{"Dir": "/m/filter/ebpf", "ImportPath": "x/filter/ebpf", "XTestGoFiles": ["a_test.go"], "XTestImports": ["github.com/cilium/ebpf"]}`,
			err:  "the tests of filter/ebpf import",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, err := parsePackages(packageList+test.more, "/m")
			if err != nil {
				t.Fatal(err)
			}
			chosen, err := needKernel(all, readTests)
			checkError(t, test.err, err)
			var got []string
			for _, p := range chosen {
				got = append(got, p.relative)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNeedKernelFindsNone(t *testing.T) {
	_, err := needKernel([]goPackage{{relative: "filter", TestGoFiles: []string{"a_test.go"}}}, readTests)
	checkError(t, "no package's tests import", err)
}

func TestSelected(t *testing.T) {
	sources := map[string]string{
		"capture": "func TestRing(t *testing.T) {\n}\n\nfunc TestRingShort(t *testing.T) {\n\tTestPods()\n}\n",
		"filter":  "func FuzzFilter(f *testing.F) {\n}\n",
		"pods":    "func TestPods(t *testing.T) {\n}\n\nfunc names() {\n}\n",
	}
	all := []goPackage{{relative: "capture"}, {relative: "filter"}, {relative: "pods"}}
	for _, test := range []struct {
		run  string
		want []string
		err  string
	}{
		{run: "", want: []string{"capture", "filter", "pods"}},
		{run: "Ring", want: []string{"capture"}},
		{run: "^Test(RingShort|Pods)$", want: []string{"capture", "pods"}},
		{run: "Filter", want: []string{"filter"}},
		{run: "TestRing/perf", want: []string{"capture", "filter", "pods"}},
		{run: "names|Rung", err: `no test that needs a kernel matches -run "names|Rung"`},
		{run: "(", err: "-run: error parsing regexp"},
	} {
		chosen, err := selected(all, test.run, func(p goPackage) ([]byte, error) { return []byte(sources[p.relative]), nil })
		checkError(t, test.err, err)
		var got []string
		for _, p := range chosen {
			got = append(got, p.relative)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.run, diff)
		}
	}
}

func TestParsePackagesRefuses(t *testing.T) {
	_, err := parsePackages(`{"Dir": `, "/m")
	checkError(t, "read the list of packages", err)
}

// checkError compares an error with a part of its text, "" for no error.
func checkError(t *testing.T, want string, err error) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && err == nil:
		t.Errorf("no error, want one with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("error %v, want one with %q", err, want)
	}
}
