package frame

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/pods"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// remedies are the flags and commands that help against each kind of error. Libraries cannot name
// them, because other programs use the libraries, too. The first row that matches an error counts,
// so special kinds come before general ones.
var remedies = []struct {
	kind  error
	words string
	join  string // between the error, or a check's own remedy, and the words; "" = ": "
	more  bool   // the next matching row is added
}{
	{kind: unix.EMFILE, words: "raise the limit of open files (ulimit -n 1024)"},
	{kind: xdp.ErrHidden, words: "start again, and add --no-sandbox to survive the exchange of a dispatcher"},
	{kind: file.ErrNameTaken, words: "omit --no-overwrite to write over it", join: ", or "},
	{kind: file.ErrDiskLow, words: "free some of it, or lower --min-free; a capture with -W or -b files:N removes its own oldest files"},
	{kind: capture.ErrBlind, words: "start again to capture what runs there now"},
	{kind: capture.ErrPassedBy, words: "--at tc captures them", join: "; "},
	{kind: meter.ErrNotCounting, words: "start again when it does, or add --listen, with which xdpcap waits for it", join: "; "},
	{kind: xdp.ErrNoNative, words: "--xdp-mode generic works with every driver, at a lower rate", join: "; ", more: true},
	{kind: xdp.ErrNotAll, words: "name it with -i, and repeat -i for several", join: "; "},
	{kind: pods.ErrHostNetwork, words: "omit --pod, and name an interface of the host with -i", join: ": "},
	{kind: pods.ErrNoRuntime, words: "where a runtime keeps them elsewhere, --netns takes the id of one of the pod's processes", join: "; "},
	{kind: xdp.ErrNotAttachable, words: "see `xdpcap interfaces`", join: "; "},
	{kind: xdp.ErrNotAtXDP, words: "--at tc needs no XDP", join: "; "},
	{kind: xdp.ErrSeveralPrograms, words: "choose with --program NAME, ID or all"},
	{kind: xdp.ErrOtherProgram, words: "--program also takes the id of one that runs elsewhere"},
	{kind: xdp.ErrReplaced, words: "trace that one, with --program and its id"},
	{kind: xdp.ErrAmbiguousProgram, words: "give --program the id of one"},
	{kind: xdp.ErrNoSuchProgram, words: "see xdpcap interfaces, or bpftool prog"},
	{kind: support.ErrAnotherCapture, words: "or start it with --serve :19000, and read its packets with xdpcap read tcp://127.0.0.1:19000; or capture with --at tc", join: "; "},
	{kind: support.ErrOccupied, words: "capture beside it: --rx-capture entry"},
	{kind: support.ErrLockedMemory, words: "grant CAP_IPC_LOCK, raise ulimit -l, or capture with a smaller -B or --transport ring"},
	{kind: capture.ErrPerfRefused, words: "--transport ring does without perf events", join: "; "},
	{kind: support.ErrBufferTooLarge, words: "a smaller -B"},
	{kind: support.ErrLargeMTU, words: "--xdp-mode generic, or --at tc", join: ", or "},
	{kind: capture.ErrNeedsExit, words: "--rx-capture exit"},
	{kind: capture.ErrNoClock, words: "-j adapter_unsynced leaves the card's stamps unchanged", join: "; "},
	{kind: capture.ErrNoStamp, words: "omit -j"},
	{kind: capture.ErrTraced, words: "omit --sink and --xdp-mode"},
	{kind: meter.ErrNotMeasurable, words: "see the mean run time with --kernel-stats", join: "; or "},
	{kind: meter.ErrNotCountable, words: "detach that program, so that xdpcap attaches its own", join: "; or "},
	{kind: meter.ErrProgramDecides, words: "omit --action to count its verdicts"},
	{kind: capture.ErrNoVerdict, words: "omit --verdict"},
	{kind: meter.ErrNoVerdict, words: "omit --verdict"},
	{kind: xdp.ErrNoReason, words: "omit --reason-map"},
	{kind: capfile.ErrMemory, words: "read fewer files at a time, or unpack them first with zstd -d"},
	{kind: filter.ErrUnsupported, words: "compile it elsewhere with tcpdump -ddd and pass the output with --filter-file", join: ", or "},
	{kind: filter.ErrNoSet, words: "give it with --filter-set NAME=FILE"},
	{kind: filter.ErrInterface, words: "choose the interface with -i", join: ", and "},
	{kind: support.ErrTracingRefused, join: "; ", more: true,
		words: "without them work --at tc, -Q out, --drops, --hook, and xdpcap drops, replay --program and latency --kernel-stats"},
	{kind: support.ErrKernelRefuses, join: "; ", words: otherKernel},
}

// otherKernel names kernels that permit fentry and fexit. It names no option of the kernel's
// configuration, because there are kernels with all of them that refuse fentry and fexit.
const otherKernel = "or use a kernel that permits them, as those of Debian 12 and 13, Ubuntu 24.04 and Fedora do"

// WithRemedy appends the remedy of an error to text, which is the error's own text, or the remedy
// of a check. If there is none, it returns text.
func WithRemedy(text string, err error) string {
	if e := (*untraced)(nil); errors.As(err, &e) {
		return text + "; " + e.instead
	}
	for _, r := range remedies {
		if !errors.Is(err, r.kind) {
			continue
		}
		if text != "" {
			text += cmp.Or(r.join, ": ")
		}
		if text += r.words; !r.more {
			return text
		}
	}
	return text
}

// AddRemedies appends the remedies of this command line to those of a report's checks.
func AddRemedies(r *support.Report) {
	complete := func(c *support.Check) { c.Remedy = WithRemedy(c.Remedy, c.Kind) }
	for _, checks := range []support.Checks{r.Kernel.Checks, r.Features} {
		for i := range checks {
			complete(&checks[i])
		}
	}
	if i := r.Interface; i != nil {
		complete(&i.Native)
		complete(&i.Frags)
		if i.Program != nil {
			complete(&i.Program.Traceable)
		}
	}
}

// An untraced is the error of a kernel that refuses tracing, with another way to the same result.
type untraced struct {
	error
	instead string
}

func (e *untraced) Unwrap() error { return e.error }

// WhichPackets, PassedAndDropped and HowLong are other ways to results of tracing, for Untraced.
// WhichPackets finds the packets with these verdicts; nil = the dropped ones.
func WhichPackets(verdicts []string) string {
	which, names := "which packets it drops", "drop"
	if verdicts != nil {
		which, names = "which packets", strings.Join(verdicts, ",")
	}
	return which + ": capture at the sender (-Q out -w FILE), then xdpcap replay --program PROGRAM --sent --yes -w v.pcapng FILE, then xdpcap read --verdict " +
		names + " v.pcapng; how many are dropped: xdpcap drops -i IF"
}

// PassedAndDropped finds how many packets a program gets.
const PassedAndDropped = "--at tc counts what it passes, xdpcap drops -i IF what it drops"

// HowLong finds how long a program runs.
const HowLong = "the mean: xdpcap latency -i IF --kernel-stats; the distribution over packets captured at the sender (-Q out -w FILE): xdpcap replay --program PROGRAM --sent --yes FILE"

// Untraced replaces the remedy of an error of a kernel that refuses tracing by another way to the
// result that the command wants. In instead it replaces IF by the interface, and PROGRAM by the
// program. It returns all other errors, and all errors if instead is "", unchanged.
func Untraced(err error, iface, instead string) error {
	refused := (*xdp.TracingError)(nil)
	if instead == "" || !errors.As(err, &refused) || !errors.Is(err, support.ErrTracingRefused) {
		return err
	}
	program := cmp.Or(refused.Program.Name, strconv.Itoa(int(refused.Program.ID)))
	instead = strings.NewReplacer("PROGRAM", program, "IF", cmp.Or(iface, AnyInterface)).Replace(instead)
	if errors.Is(err, support.ErrKernelRefuses) {
		instead += "; " + otherKernel
	}
	return &untraced{err, instead}
}
