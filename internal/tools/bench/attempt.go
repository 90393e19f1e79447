package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// tb is the part of testing.TB that measurements use. They are written like tests, and use the same
// helpers: Fatalf ends a measurement, and the functions given to Cleanup run at its end.
type tb interface {
	testnet.TB
	Context() context.Context
}

// An attempt is the tb of a measurement that is not a test. One goroutine uses it.
type attempt struct {
	ctx      context.Context
	cleanups []func()
	errs     []error
}

// try runs a measurement and its cleanups, and returns why it failed.
func try(ctx context.Context, measure func(tb)) error {
	a := &attempt{ctx: ctx}
	var done sync.WaitGroup
	done.Go(func() { // a goroutine for Fatalf to end
		defer func() {
			for _, f := range a.cleanups {
				defer f() // the last one runs first
			}
		}()
		measure(a)
	})
	done.Wait()
	return errors.Join(a.errs...)
}

// within runs a part of a measurement, with the cleanups of that part.
func within(t tb, part func(tb)) {
	if err := try(t.Context(), part); err != nil {
		t.Fatalf("%v", err)
	}
}

func (a *attempt) Helper()                  {}
func (a *attempt) Context() context.Context { return a.ctx }
func (a *attempt) Cleanup(f func())         { a.cleanups = append(a.cleanups, f) }

func (a *attempt) Errorf(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Skipf(format string, args ...any) { a.Fatalf(format, args...) }

func (a *attempt) TempDir() string {
	dir, err := os.MkdirTemp("", "xdpcap-bench-")
	if err != nil {
		a.Fatalf("%v", err)
	}
	a.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
