package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
)

// programWords are the words for a traced program, by where it runs.
var programWords = map[capture.TargetPlace]string{
	0: "XDP program", capture.AtTCIngress: "tc ingress program", capture.AtTCEgress: "tc egress program", capture.AtTC: "tc program",
}

// announce prints where packets are captured, and in which way.
func announce(out io.Writer, sources []capture.Source, o capture.Options, privileges *frame.Sandbox, verbose bool) {
	var withoutTSO, withoutTags []string
	for _, src := range sources {
		switch {
		case src.Hook == capture.TailCall:
			frame.Say(out, "the hook map's owner calls %s before it returns", src.Sampler.Name)
		case src.Hook.Traces():
			frame.Say(out, "%s: %s %s stays, and is traced at its %s", src.Name, programWords[src.TargetAt], src.Target, src.Hook)
		case src.Mode == capture.Generic && o.Mode == capture.Auto:
			frame.Say(out, "%s has no native XDP: using generic mode, in the kernel's stack", driverOf(src))
		case src.Hook == capture.XDP && src.Mode == capture.Native && src.Driver == "veth":
			withoutTSO = append(withoutTSO, src.Name)
		}
		if src.Hook == capture.XDP && src.Mode == capture.Generic && src.Driver != "" && o.VLANRestore == capture.VLANRestoreAuto {
			withoutTags = append(withoutTags, src.Name)
		}
	}
	if withoutTags != nil {
		frame.Say(out, "%s: generic mode does not give programs a VLAN tag that the card or the stack keeps beside a packet: --at tc puts it back", someLabels(withoutTags))
	}
	if withoutTSO != nil {
		frame.Say(out, "%s: while XDP runs here, the other end of the veth pair sends TCP much slower, without TSO: --at tc avoids that", someLabels(withoutTSO))
	}
	if verbose {
		for _, src := range sources {
			if src.Attached != "" {
				frame.Say(out, "%s: %s packets are seen by %s", src.Name, directionWords[src.Direction()], src.Attached)
			}
		}
		frame.Say(out, "transport %v, %d KiB for each CPU", o.Transport, o.Buffer>>10)
		frame.Say(out, "privileges: %v", privileges)
	}
	where := places(sources)
	if len(o.Patterns) > 0 && !o.StackDrops {
		where = append(where, "interfaces that come later")
	}
	frame.Say(out, "listening on %s, link-type EN10MB (Ethernet), snapshot length %s", strings.Join(where, ", and on "), lengthOf(o))
}

// lengthOf formats how much of each packet is kept.
func lengthOf(o capture.Options) string {
	if !o.HeadersOnly {
		return fmt.Sprint(o.SnapLen, " bytes")
	}
	return (&snapshotLength{headers: true, payload: int64(o.Payload)}).String()
}

// driverOf names the driver of an interface, or only the interface if it has no driver.
func driverOf(src capture.Source) string {
	if src.Driver == "" {
		return src.Name
	}
	return "driver " + src.Driver + " of " + src.Name
}

// besideXDP are the words for hooks that are not at XDP.
var besideXDP = map[capture.Hook]string{
	capture.Ingress: "tc ingress", capture.Egress: capture.Egress.String(), capture.StackDrop: "what the stack throws away",
}

// directionWords are the adjectives for packets of a direction.
var directionWords = map[capture.Direction]string{capture.In: "received", capture.Out: "sent"}

// places names the sources. It groups those that are captured in the same way: eth0,eth1, XDP
// native.
func places(sources []capture.Source) (places []string) {
	var ways []string
	labels := make(map[string][]string)
	for _, src := range sources {
		label := src.Label()
		if pod := src.Pod.String(); pod != "" {
			label += " (pod " + pod + ")"
		}
		way := wayOf(src)
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
		labels[way] = append(labels[way], label)
	}
	for _, way := range ways {
		places = append(places, someLabels(labels[way])+", "+way)
	}
	return places
}

// wayOf names the hook and the mode of a source: XDP native, XDP entry, tc ingress.
func wayOf(src capture.Source) string {
	if src.Hook == capture.XDP {
		return "XDP " + src.Mode.String()
	}
	return cmp.Or(besideXDP[src.Hook], "XDP "+src.Hook.String())
}

// writeCounts prints tcpdump's three lines and the whole account. verb is "captured" or the like.
func writeCounts(out io.Writer, a capture.Account, verb string) {
	fmt.Fprintf(out, "%s %s\n%s received by filter\n%s dropped by kernel\n",
		frame.Packets(a.Captured), verb, frame.Packets(a.Matched()), frame.Packets(a.Dropped()))
	frame.Say(out, "%s", a.Equation())
	if a.PassedBy > 0 {
		frame.Say(out, "at least %d more packets, which the interface has counted, did not pass the hook", a.PassedBy)
	}
	if a.Undecided > 0 {
		frame.Say(out, "%d of the packets filtered out could not be decided: the first fragment, or the exit of the XDP program, was not seen", a.Undecided)
	}
	if a.NotRecorded > 0 {
		frame.Say(out, "%d of the packets not sampled were in memory and not recorded", a.NotRecorded)
	}
	if a.NotTaken > 0 {
		frame.Say(out, "%d of the lost packets were not taken by the output", a.NotTaken)
	}
}

// progressInterval is the time between two updates of the bar.
const progressInterval = time.Second

// A reporter prints everything on stderr while packets are captured: how they are captured,
// notices, clients that connect and disconnect, the progress, and the counts at SIGUSR1. It prints
// from a separate goroutine, so that packets never wait for a reader of stderr.
type reporter struct {
	*captureRun
	bar     *bar     // nil = the progress is not shown
	clients *notices // about clients

	stop, finished chan struct{}
}

func (r *reporter) start() {
	r.stop, r.finished = make(chan struct{}), make(chan struct{})
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, unix.SIGUSR1)
	go func() {
		defer close(r.finished)
		defer signal.Stop(usr1)
		r.announceAll()
		r.report(usr1)
	}()
}

// end ends the goroutine and waits for it.
func (r *reporter) end() {
	close(r.stop)
	<-r.finished
}

// announceAll prints where and how packets are captured, recorded, sent and counted.
func (r *reporter) announceAll() {
	say := func(format string, args ...any) { frame.Say(r.text, format, args...) }
	if r.exporter != nil {
		say("%v", r.exporter)
	}
	if r.o.printing.Verbose > 0 {
		announceCards(r.text, r.session)
	}
	if r.recorder != nil {
		say("%s", r.armed())
	}
	if text := r.o.endsAtSize(); text != "" {
		say("%s", text)
	}
	for _, out := range r.Outputs {
		for _, text := range out.Invitation() {
			say("%s", text)
		}
	}
	if r.o.halfSeen {
		say("only received packets are captured: add -Q inout for those that this machine sends, such as its answers")
	}
	announce(r.text, r.session.Sources(), r.session.Options(), &r.o.Sandbox, r.o.printing.Verbose > 0)
}

// report prints what happens until end is called. usr1 requests the counts.
func (r *reporter) report(usr1 <-chan os.Signal) {
	var update <-chan time.Time // of the bar; nil = never
	if r.bar != nil {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		update = ticker.C
	}
	look := time.NewTicker(counters.LookInterval)
	defer look.Stop()
	known, _ := r.connections()
	for {
		select {
		case <-r.stop:
			r.bar.around(func() {
				for len(r.notices.queue) > 0 {
					r.note(<-r.notices.queue)
				}
			})
			return
		case <-usr1:
			r.bar.around(r.printCounts)
		case err := <-r.notices.queue:
			r.bar.around(func() { r.note(err) })
		case <-look.C:
			if err := r.companions.follow(); err != nil {
				r.bar.around(func() { r.note(err) })
			}
			now, _ := r.connections()
			if text := now.since(known); text != "" {
				r.bar.around(func() {
					if text, ok := r.clients.fold(text); ok {
						frame.Say(r.text, "%s", text)
					}
				})
			}
			known = now
		case <-update:
			if p, err := r.progressSoFar(); err == nil {
				r.bar.show(p)
			}
		}
	}
}

// note prints a notice with its remedy, unless there were many like it, and keeps it for the object
// of --json.
func (r *reporter) note(err error) {
	out, text := r.text, frame.WithRemedy(err.Error(), err)
	if loss := (*capture.Loss)(nil); errors.As(err, &loss) {
		text += "; " + lossRemedy(loss, r.session.Options(), r.prints())
		if r.losses != nil {
			out = r.losses
		}
	}
	printed, ok := text, true
	if _, isAnswer := err.(answer); isAnswer {
		r.notices.keep(text)
	} else {
		printed, ok = r.notices.fold(text)
	}
	if ok {
		frame.Say(out, "%s", printed)
	}
}

// endsAtSize announces the size of all files at which the capture ends; "" = it does not end at a
// size, because --max-bytes is missing, or a ring of files removes the oldest file instead.
func (o *Options) endsAtSize() string {
	limits, ring := o.Series, "-C and -W, or -b files:N,"
	if o.recorder.size.Bytes > 0 {
		limits, ring = &o.recorder.limits, "-W N"
	}
	if limits == nil || limits.MaxBytes == 0 || limits.Keep > 0 {
		return ""
	}
	return fmt.Sprintf("ends when all files together have %s (--max-bytes); with %s it would remove the oldest instead", machine.Amount(limits.MaxBytes), ring)
}

// armed returns the announcement of a recorder: how much it keeps, and at which triggers it writes.
func (r *captureRun) armed() string {
	keeps := machine.Amount(r.o.recorder.size.Bytes)
	if ahead := r.o.recorder.ahead; ahead > 0 {
		keeps = fmt.Sprintf("%v, at most %s,", ahead, keeps)
	}
	text := fmt.Sprintf("recorder: keeps the last %s of packets in memory, and writes %s", keeps, message.Escape(outputs.RecordingNames(r.o.Write)))
	if len(r.o.recorder.words) == 0 {
		return text + " on SIGUSR2"
	}
	return text + fmt.Sprintf(" at: %s; or on SIGUSR2", message.Escape(strings.Join(r.o.recorder.words, ", ")))
}
