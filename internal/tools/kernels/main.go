// Command kernels runs the tests that depend on the kernel in Debian's kernels. It boots each
// kernel under qemu's software emulation, from an initramfs with the test binaries and this
// program, which is the first process there.
//
//	kernels [-quick] [-run REGEXP] [6.1 6.12 arm64 ...]
//
// chosen.go lists the tests. The command is run from the root of the module, keeps its files in
// bin, and needs no root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// workDir has a directory for each kernel: with the files of its package and, from the last run,
// the output of the console and of the tests. `go list ./...` ignores directories that begin with
// _. Without that it would fail if a directory is replaced meanwhile: `make test` does both at
// once.
const workDir = "bin/_linux"

// kernelLimit ends a machine that hangs outside of a test; a test that hangs ends by packageLimit.
// It is longer than all packages together take on a busy machine.
const kernelLimit = 3 * time.Hour

func main() {
	if os.Getpid() == 1 {
		guestMain()
		return
	}
	var c choice
	flag.BoolVar(&c.quick, "quick", false, "run only the tests that make test runs")
	flag.StringVar(&c.run, "run", "", "run only those of the tests that match `REGEXP`")
	limit := flag.Duration("timeout", kernelLimit, "time for one kernel, boot and tests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := testKernels(ctx, flag.Args(), c, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func testKernels(ctx context.Context, versions []string, c choice, limit time.Duration) error {
	kernels, err := choose(versions)
	if err != nil {
		return err
	}
	tests := make([][]test, len(kernels))
	packages := make(map[*architecture][]string)
	for i, k := range kernels {
		if tests[i], err = c.tests(k); err != nil {
			return err
		}
		for _, t := range tests[i] {
			packages[k.arch] = append(packages[k.arch], t.Package)
		}
	}
	for arch, list := range packages {
		slices.Sort(list)
		if err := arch.build(ctx, slices.Compact(list)); err != nil {
			return err
		}
		if err := arch.getTools(ctx); err != nil {
			return err
		}
	}
	// An emulated machine keeps one of our processors busy, so two kernels take no longer than one.
	errs := make([]error, len(kernels))
	running := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i, k := range kernels {
		all.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			text, err := k.test(ctx, tests[i], limit)
			if err != nil {
				errs[i] = fmt.Errorf("kernel %s: %w", k.version, err)
			}
			fmt.Print(text) // in one piece
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
