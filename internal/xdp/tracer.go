package xdp

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// AttachTracer runs a loaded fentry or fexit program on its target until the link is closed. The
// error wraps the kernel's error number; support.ExplainTracer finds the cause.
func AttachTracer(prog *ebpf.Program) (link.Link, error) {
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return nil, fmt.Errorf("attach a tracer: %w", err)
	}
	return l, nil
}

// A TracingError explains to the user why an XDP program cannot be traced with fentry and fexit
// programs.
type TracingError struct {
	Reason  string
	Remedy  string  // "" = there is no remedy on this kernel
	Program Program // the program that cannot be traced; zero = support.ExplainTracer did not set it
	Kind    error   // the kind of error for errors.Is; nil = none
	Err     error   // the kernel's error; nil = the kernel was not called
}

func (e *TracingError) Error() string {
	if e.Remedy == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Remedy
}

// Unwrap returns the kind and the kernel's error.
func (e *TracingError) Unwrap() (errs []error) {
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
