package frame

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The line that the user reads has the cause from the package and the remedy from the command line.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"no kind", errors.New("it broke"), "it broke"},
		{"a kind that needs none", message.Errorf(xdp.ErrBusy, "eth0 is taken: try again"), "eth0 is taken: try again"},
		{"wrapped", fmt.Errorf("open: %w", message.Errorf(xdp.ErrSeveralPrograms, "eth0 runs a, b")),
			"open: eth0 runs a, b: choose with --program NAME, ID or all"},
		{"with its own join", message.Errorf(xdp.ErrNoNative, "native mode: refused"),
			"native mode: refused; --xdp-mode generic works with every driver, at a lower rate"},
		{"beside it tc", message.Errorf(xdp.ErrNotAtXDP, "open: %w", message.Errorf(xdp.ErrNoNative, "native mode: refused")),
			"open: native mode: refused; --xdp-mode generic works with every driver, at a lower rate; --at tc needs no XDP"},
		{"only tc", message.Errorf(xdp.ErrNotAtXDP, "%w", message.Errorf(xdp.ErrBusy, "eth0 is taken")), "eth0 is taken; --at tc needs no XDP"},
		{"gone", message.Errorf(xdp.ErrNotAttachable, "native mode: no such device"), "native mode: no such device; see `xdpcap interfaces`"},
		{"a refused tracer", fmt.Errorf("trace lb: %w", &xdp.TracingError{Reason: "refused", Remedy: "another kernel", Kind: support.ErrTracingRefused}),
			"trace lb: refused: another kernel; without them work --at tc, -Q out, --drops, --hook, and xdpcap drops, replay --program and latency --kernel-stats"},
		{"a tracer that was to measure", message.Errorf(meter.ErrNotMeasurable, "eth0: %w",
			&xdp.TracingError{Reason: "refused", Remedy: "another kernel", Kind: support.ErrTracingRefused}),
			"eth0: refused: another kernel; or see the mean run time with --kernel-stats"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, WithRemedy(test.err.Error(), test.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every kind has a remedy, and is in the table once.
func TestRemediesDiffer(t *testing.T) {
	t.Parallel()
	for i, r := range remedies {
		if r.kind == nil || r.words == "" {
			t.Errorf("remedy %d has no kind or no words", i)
		}
		for _, earlier := range remedies[:i] {
			if errors.Is(earlier.kind, r.kind) {
				t.Errorf("%v stands in the table twice", r.kind)
			}
		}
	}
}

// A report's checks get their remedies wherever they stand.
func TestAddRemedies(t *testing.T) {
	t.Parallel()
	check := func(remedy string, kind error) support.Check {
		return support.Check{Key: "x", Answer: support.No, Remedy: remedy, Kind: kind}
	}
	r := &support.Report{
		Kernel: support.Kernel{Checks: support.Checks{check("use another kernel", support.ErrTracingRefused), check("as it is", nil)}},
		Interface: &support.Interface{
			Native:  check("", support.ErrOccupied),
			Frags:   check("mtu 1500", support.ErrLargeMTU),
			Program: &support.AttachedProgram{Traceable: check("use another kernel", support.ErrTracingRefused)},
		},
		Features: support.Checks{check("", support.ErrLockedMemory)},
	}
	AddRemedies(r)
	const refused = "use another kernel; without them work --at tc, -Q out, --drops, --hook, and xdpcap drops, replay --program and latency --kernel-stats"
	want := &support.Report{
		Kernel: support.Kernel{Checks: support.Checks{check(refused, support.ErrTracingRefused), check("as it is", nil)}},
		Interface: &support.Interface{
			Native:  check("capture beside it: --rx-capture entry", support.ErrOccupied),
			Frags:   check("mtu 1500, or --xdp-mode generic, or --at tc", support.ErrLargeMTU),
			Program: &support.AttachedProgram{Traceable: check(refused, support.ErrTracingRefused)},
		},
		Features: support.Checks{check("grant CAP_IPC_LOCK, raise ulimit -l, or capture with a smaller -B or --transport ring", support.ErrLockedMemory)},
	}
	if diff := cmp.Diff(want, r, cmpopts.EquateErrors(), cmpopts.IgnoreUnexported(support.Privileges{}, support.Interface{})); diff != "" {
		t.Error(diff)
	}
	AddRemedies(&support.Report{}) // without an interface
}
