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
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// programWords are the words for a traced program, by where it runs.
var programWords = map[capture.TargetPlace]string{
	0: "XDP program", capture.AtTCIngress: "tc ingress program", capture.AtTCEgress: "tc egress program", capture.AtTC: "tc program",
}

// announce says on stderr that packets are being captured, and how.
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

// lengthOf says how much of each packet is kept.
func lengthOf(o capture.Options) string {
	if !o.HeadersOnly {
		return fmt.Sprint(o.SnapLen, " bytes")
	}
	return (&snapshotLength{headers: true, payload: int64(o.Payload)}).String()
}

// driverOf names the driver of an interface, or only the interface if it has no driver, like
// loopback.
func driverOf(src capture.Source) string {
	if src.Driver == "" {
		return src.Name
	}
	return "driver " + src.Driver + " of " + src.Name
}

// besideXDP has the words for the hooks that are not at XDP.
var besideXDP = map[capture.Hook]string{
	capture.Ingress: "tc ingress", capture.Egress: capture.Egress.String(), capture.StackDrop: "what the stack throws away",
}

// directionWords are the words for packets of a direction.
var directionWords = map[capture.Direction]string{capture.In: "received", capture.Out: "sent"}

// places lists the sources, those that are captured in one way together: eth0,eth1, XDP native.
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

// wayOf says how a source is captured: XDP native, XDP entry, tc ingress.
func wayOf(src capture.Source) string {
	if src.Hook == capture.XDP {
		return "XDP " + src.Mode.String()
	}
	return cmp.Or(besideXDP[src.Hook], "XDP "+src.Hook.String())
}

// writeCounts prints tcpdump's three lines and the whole account. what has happened to the packets
// that were captured.
func writeCounts(out io.Writer, a capture.Account, what string) {
	fmt.Fprintf(out, "%s %s\n%s received by filter\n%s dropped by kernel\n",
		frame.Packets(a.Captured), what, frame.Packets(a.Matched()), frame.Packets(a.Dropped()))
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

const liveInterval = time.Second

// A reporter says that packets are being captured, answers SIGUSR1 with the counts, prints the
// session's notices, says which clients come and go, and keeps the status on a terminal. All of
// that is done by a goroutine of its own, so that packets never wait for somebody to read stderr.
type reporter struct {
	*captureRun
	bar     *bar     // nil = the progress is not shown
	clients *notices // about clients

	stop, finished chan struct{}
}

func (r *reporter) start() {
	r.stop, r.finished = make(chan struct{}), make(chan struct{})
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	go func() {
		defer close(r.finished)
		defer signal.Stop(asked)
		if r.exporter != nil {
			frame.Say(r.text, "%v", r.exporter)
		}
		if r.o.printing.Verbose > 0 {
			announceCards(r.text, r.session)
		}
		if r.recorder != nil {
			frame.Say(r.text, "%s", r.armed())
		}
		if text := r.o.endsAtSize(); text != "" {
			frame.Say(r.text, "%s", text)
		}
		for _, out := range r.Outputs {
			for _, text := range out.Invitation() {
				frame.Say(r.text, "%s", text)
			}
		}
		if r.o.halfSeen {
			frame.Say(r.text, "only received packets are captured: add -Q inout for those that this machine sends, such as its answers")
		}
		announce(r.text, r.session.Sources(), r.session.Options(), &r.o.Sandbox, r.o.printing.Verbose > 0)
		r.report(asked)
	}()
}

// end waits for the goroutine, so that it prints nothing afterwards.
func (r *reporter) end() {
	close(r.stop)
	<-r.finished
}

func (r *reporter) report(asked <-chan os.Signal) {
	var tick <-chan time.Time
	if r.bar != nil {
		ticker := time.NewTicker(liveInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	look := time.NewTicker(counters.LookInterval)
	defer look.Stop()
	known, _ := r.connections()
	for {
		select {
		case <-r.stop:
			r.bar.around(func() {
				for len(r.notices.come) > 0 {
					r.note(<-r.notices.come)
				}
			})
			return
		case <-asked:
			r.bar.around(r.printCounts)
		case err := <-r.notices.come:
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
		case <-tick:
			if p, err := r.progressSoFar(); err == nil {
				r.bar.show(p)
			}
		}
	}
}

// note prints a notice and keeps it for the object of --json, unless there were many like it.
func (r *reporter) note(err error) {
	out, text := r.text, frame.WithRemedy(err.Error(), err)
	if loss := (*capture.Loss)(nil); errors.As(err, &loss) {
		text += "; " + lossRemedy(loss, r.session.Options(), r.prints())
		if r.losses != nil {
			out = r.losses
		}
	}
	if _, asked := err.(answer); asked {
		r.notices.keep(text)
		frame.Say(out, "%s", text)
		return
	}
	if told, ok := r.notices.fold(text); ok {
		frame.Say(out, "%s", told)
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

// armed announces what the recorder keeps, and the triggers at which it writes.
func (r *captureRun) armed() string {
	keeps := machine.Amount(r.o.recorder.size.Bytes)
	if ahead := r.o.recorder.ahead; ahead > 0 {
		keeps = fmt.Sprintf("%v, at most %s,", ahead, keeps)
	}
	text := fmt.Sprintf("recorder: keeps the last %s of packets in memory, and writes %s", keeps, escape.Text(outputs.RecordingNames(r.o.Write)))
	if len(r.o.recorder.words) == 0 {
		return text + " on SIGUSR2"
	}
	return text + fmt.Sprintf(" at: %s; or on SIGUSR2", escape.Text(strings.Join(r.o.recorder.words, ", ")))
}
