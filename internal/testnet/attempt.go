package testnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
)

// An attempt is the TB of a function that is not a test. One goroutine uses it.
type attempt struct {
	ctx      context.Context
	cleanups []func()
	errs     []error
}

// Try calls f, which is written like a test, outside of a test. Fatalf ends f, and then the
// functions run that f has given to Cleanup. The error has the messages of Errorf and Fatalf.
func Try(ctx context.Context, f func(TB)) error {
	a := &attempt{ctx: ctx}
	var done sync.WaitGroup
	done.Go(func() { // a goroutine for Fatalf to end
		defer func() {
			for _, cleanup := range a.cleanups {
				defer cleanup() // the last one runs first
			}
		}()
		f(a)
	})
	done.Wait()
	return errors.Join(a.errs...)
}

// Within calls a part of a test, and runs the cleanups of that part.
func Within(tb TB, part func(TB)) {
	tb.Helper()
	Must(tb, Try(tb.Context(), part))
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
	dir, err := os.MkdirTemp("", "testnet-")
	if err != nil {
		a.Fatalf("%v", err)
	}
	a.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
