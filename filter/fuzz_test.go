package filter_test

import (
	"testing"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// FuzzCompile catches a panic for any text, and a program that the kernel would refuse.
func FuzzCompile(f *testing.F) {
	for _, expr := range filtertest.Corners {
		f.Add(expr, false)
	}
	for _, expr := range filtertest.Inner {
		f.Add(expr, true)
	}
	for seed := range uint64(50) {
		f.Add(filtertest.NewGrammar(seed).Expression(2), true)
		f.Add(filtertest.NewGrammar(seed).Inner(2), false)
	}
	f.Fuzz(func(t *testing.T, expr string, vlan bool) {
		if len(expr) > 2000 {
			t.Skip("long texts take long and find nothing new")
		}
		prog, err := filter.Compile(expr, filter.Options{Resolver: filtertest.Resolver{}, Netmask: filtertest.AnyMask, VLANAware: vlan})
		if err != nil {
			_ = err.Error()
			if e, ok := err.(*filter.Error); ok {
				_ = e.Caret()
			}
			return
		}
		if err := filter.Check(prog.Instructions); err != nil {
			t.Fatalf("%q: %v\n%s", expr, err, filter.Listing(prog.Instructions))
		}
		if body, err := ebpf.Translate(prog); err == nil && len(body) == 0 {
			t.Fatalf("%q: nothing translated", expr)
		}
	})
}

// FuzzParseRaw catches a panic, and a program that ParseRaw returns although Check refuses it.
func FuzzParseRaw(f *testing.F) {
	f.Add("4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n")
	f.Add("1,6 0 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		prog, err := filter.ParseRaw(text)
		if err != nil {
			return
		}
		if err := filter.Check(prog); err != nil {
			t.Fatal(err)
		}
	})
}
