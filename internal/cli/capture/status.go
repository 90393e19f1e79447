package capture

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/cli/status"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// hasStatus says whether a terminal shows the status: nothing else is printed there all the time.
// What follows a pipe may print on the same terminal.
func (r *captureRun) hasStatus() bool {
	o := r.o
	if o.printing.Quiet || o.Print || r.text != o.Process.Stderr || len(r.Outputs) == 0 && !o.account {
		return false
	}
	return !o.WritesStdout() || isRegular(o.Process.Stdout.File)
}

// status is what the capture has done so far.
func (r *captureRun) status() (s status.Status, err error) {
	all, err := r.accountsNow()
	if err != nil {
		return s, err
	}
	a, now := all[0].Total(), time.Now()
	s = status.Status{
		At: now, Elapsed: now.Sub(r.started),
		Seen: a.Seen, Captured: a.Captured, Lost: a.Lost, Bytes: a.Bytes,
		RingUse: r.session.RingUse(),
		Left:    status.Left(now.Sub(r.started), r.o.Duration, a.Captured, r.o.Count, r.o.Counted),
	}
	if r.recorder != nil {
		s.Recorder = &status.Recorder{State: r.recorder.State()}
		s.Recorder.Recordings, _ = r.recorder.Recordings()
	}
	if at := r.fileAt(); at >= 0 {
		e := r.Outputs[at].Live.(*file.File).Existing()
		s.Files = &e
	}
	if c, ok := r.connections(); ok {
		s.Clients = &status.Clients{Connected: c.Connected, Lost: c.Lost}
	}
	return s, nil
}

// isRegular says whether somebody keeps what is written to a file.
func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// fileAt is which output is the file, or the series, to which the flags about files apply; negative
// = there is none.
func (r *captureRun) fileAt() int {
	return slices.IndexFunc(r.Outputs, func(out outputs.Named) bool {
		_, is := out.Live.(*file.File)
		return is && out.Name == r.o.Write
	})
}

// writeSeries says which files of a series there are, and what they have.
func (r *captureRun) writeSeries(all []capture.Accounts) {
	at := r.fileAt()
	if at < 0 || r.o.Series == nil {
		return
	}
	e, captured := r.Outputs[at].Live.(*file.File).Existing(), all[at].Total().Captured
	if e.Files == 0 {
		return
	}
	now, gone := time.Now(), ""
	if n := captured - min(captured, e.Packets); n > 0 {
		gone = fmt.Sprintf("; %s were in files that are no longer there", frame.Packets(n))
	}
	frame.Say(r.text, "%s: %s with %s, %s to %s%s", r.o.Write, frame.Several(e.Files, "file"), frame.Packets(e.Packets),
		status.At(e.Since, now), status.At(now, now), gone)
}

// A server is the output of --serve.
type server interface{ Account() stream.ServerAccount }

// connections are the clients of --serve.
type connections struct {
	name string
	stream.ServerAccount
}

// connections returns false without --serve.
func (r *captureRun) connections() (c connections, ok bool) {
	for _, out := range r.Outputs {
		if s, is := out.Live.(server); is {
			c, ok = connections{out.Name, s.Account()}, true
		}
	}
	return c, ok
}

// since says which clients have come and gone; "" = none.
func (c connections) since(before connections) string {
	come := c.Clients - before.Clients
	gone := before.Connected + int(come) - c.Connected
	var text string
	switch {
	case come > 0 && gone > 0:
		text = fmt.Sprintf("%s came, %d went", frame.Several(come, "client"), gone)
	case come > 0:
		text = frame.Several(come, "client") + " came"
	case gone > 0:
		text = frame.Several(gone, "client") + " went"
	case c.Refused > before.Refused:
		text = frame.Several(c.Refused-before.Refused, "client") + " refused"
	default:
		return ""
	}
	return fmt.Sprintf("%s: %s, %d connected", c.name, text, c.Connected)
}

// tellOfClients prints what connections returned, unless there were many like it.
func (r *reporter) tellOfClients(text string) {
	if told, ok := r.clients.fold(text); ok {
		frame.Say(r.text, "%s", told)
	}
}

// endsAtSize says at which size of its files the capture ends; "" = at none, or a ring of files
// removes the oldest instead.
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

// armed says that the recorder waits, and for what.
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
