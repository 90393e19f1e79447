package capture

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// recorderOptions are the flags of the flight recorder (--ring).
type recorderOptions struct {
	size  frame.Size
	ahead time.Duration
	post  time.Duration
	words []string // --trigger

	interval time.Duration // between triggers
	limits   file.Rotation

	// Of the words, by checkRecorder:
	triggers    []recorder.Trigger
	atExit      triggerNeed // needVerdict or needRunTime if a trigger needs it; else needNothing
	needsReason bool        // a trigger needs the reason for which the stack drops packets
	atEnd       bool        // --trigger end
}

func (o *recorderOptions) flags() []frame.Flag {
	o.size = frame.Size{Unit: 1}
	return []frame.Flag{
		{Name: "ring", Value: (*ringFlag)(o),
			Help: "keep the last packets in memory of this `size` (256M), those of the last seconds (10s, 300s), or both (10s,1G); write them to -w at a --trigger, or on SIGUSR2"},
		{Name: "trigger", Value: &o.words,
			Help: "make --ring write when this happens: aborted or another verdict, slower:5us (the XDP program ran at least so long), lost, reason:NO_SOCKET with --drops, retransmit (TCP of this network namespace sends something again), any of them as drop>1000/s, end, or a packet that matches a `filter`; repeat --trigger for several"},
		{Name: "trigger-interval", Value: &o.interval, Default: "1s", Help: "after a trigger, only count further triggers for this `time`"},
		{Name: "post", Value: &o.post, Help: "also write the packets that come within this `time` after a trigger"},
	}
}

// A ringFlag is the value of --ring: a size (256M), a time (10s), or both (10s,256M).
type ringFlag recorderOptions

// timedRing is the memory for packets, in bytes, if --ring has only a time.
const timedRing = 256 << 20

func (o *ringFlag) Set(text string) error {
	memory := frame.Size{Unit: 1}
	first, second, both := strings.Cut(text, ",")
	var ahead time.Duration
	if n, err := strconv.Atoi(strings.TrimSuffix(first, "m")); err == nil && strings.HasSuffix(first, "m") {
		return fmt.Errorf("minutes or memory? say %ds or %dM", 60*n, n)
	}
	if strings.HasSuffix(first, "s") {
		if err := (*frame.Duration)(&ahead).Set(first); err != nil {
			return err
		}
		if first = second; !both {
			first = strconv.Itoa(timedRing)
		}
		both = false
	}
	if err := memory.Set(first); err != nil || both {
		return errors.New("must be a size of memory, 256M, or a time in seconds, 10s, or both: 10s,256M")
	}
	o.size, o.ahead = memory, ahead
	return nil
}

func (o *ringFlag) String() string { return o.size.String() }
func (o *ringFlag) Type() string   { return "size" }
func (o *ringFlag) Forget()        { o.size.Bytes, o.ahead = 0, 0 }

// checkRecorder finds mistakes in the flags of the recorder, and parses its triggers.
func (c *Options) checkRecorder(given func(flag string) bool) error {
	o, write := &c.recorder, c.Write
	switch {
	case !given("ring"):
		return nil
	case o.size.Bytes < recorder.MinSize:
		return fmt.Errorf("--ring %s: must be at least %dM", cmp.Or(o.size.String(), "0"), recorder.MinSize>>20)
	case write == "" || frame.IsStdout(write):
		return errors.New("--ring: each trigger makes a file: add -w out.pcapng, for out-1.pcapng, out-2.pcapng and so on")
	case len(c.Files()) > 1:
		return fmt.Errorf("--ring: -w names %d files: choose one, whose name gets the number of each recording", len(c.Files()))
	}
	var err error
	if o.limits, err = c.Recordings(given); err != nil {
		return err
	}
	for _, text := range o.words {
		if strings.TrimSpace(text) == "end" {
			o.atEnd = true
			continue
		}
		t, need, err := parseTrigger(text, c.filter.Compiling())
		if err != nil {
			return fmt.Errorf("--trigger: %w", err)
		}
		o.triggers = append(o.triggers, t)
		switch need {
		case needReason:
			o.needsReason = true
		case needBytes:
			if c.Anonymizes() {
				return fmt.Errorf("--trigger %q and --anonymize: the recorder never sees a packet as it was, and a file says what triggered it: choose a trigger that is no filter", text)
			}
		default:
			o.atExit = max(o.atExit, need)
		}
	}
	return nil
}

// openRecorder creates the recorder, and checks that it will be able to create files.
func (r *captureRun) openRecorder() (err error) {
	trust := r.o.Sandbox.Opener().Trust(r.o.Write)
	if err := r.o.Sandbox.Try(func() error { return outfile.TryDirectory(filepath.Dir(r.o.Write), trust) }); err != nil {
		return fmt.Errorf("-w: %w", err)
	}
	limits, after := r.o.recorder.limits, 0
	if limits.Keep > 0 {
		var unread error
		if limits.Left, after, unread = outputs.EarlierRecordings(r.o.Write); unread != nil {
			r.notices.add(unread)
		}
	}
	limits.Path = func(file.Place) string { return r.o.Write }
	if err := limits.CheckFree(); err != nil {
		return fmt.Errorf("-w: %w", err)
	}
	names := outputs.FileNames(r.o.Write, after)
	r.recorder, err = recorder.New(recorder.Options{
		Size:     int(r.o.recorder.size.Bytes),
		Ahead:    r.o.recorder.ahead,
		Post:     r.o.recorder.post,
		Interval: r.o.recorder.interval,
		Triggers: r.o.recorder.triggers,
		AtEnd:    r.o.recorder.atEnd,
		Open:     func() (*file.File, string, error) { return r.openRecording(names, limits) },
		Done:     func(done recorder.Recording) { r.notices.add(recorded{done}) },
	})
	if err != nil {
		return fmt.Errorf("--ring: %w", err)
	}
	if len(r.o.recorder.words) == 0 {
		r.notices.add(fmt.Errorf("--ring without --trigger: only a signal makes a recording: kill -USR2 %d", os.Getpid()))
	}
	return nil
}

// openRecording creates the next file of the recorder. It uses the next name if a file of that name
// has come into being since names has checked it: packets would go to whoever has created a FIFO.
func (r *captureRun) openRecording(names func() string, limits file.Rotation) (*file.File, string, error) {
	options := r.writer(r.o.File())
	options.NoLinks = r.o.Sandbox.Opener().Trust(r.o.Write).NoLinks
	options.StatisticsInterval = 0 // the statistics of a recording are about its own packets, which are written at once
	for {
		name := names()
		limits.Path = func(file.Place) string { return name }
		opened, err := r.OpenFile(name, &limits, true, options)
		switch {
		case err == nil && !opened.IsNew():
			opened.Close()
		case !errors.Is(err, file.ErrNameTaken) && !errors.Is(err, file.ErrNoReader):
			r.RecordTo(opened)
			return opened, name, err
		}
	}
}

// A recorded is the notice about a recording.
type recorded struct{ recorder.Recording }

func (r recorded) Error() string {
	further := ""
	if r.Further > 0 {
		further = fmt.Sprintf(", and %d more triggers while they were written", r.Further)
	}
	return fmt.Sprintf("%s: %s recorded because of: %s, at %s%s",
		r.File, frame.Packets(r.Packets), r.Trigger, r.Time.Format(time.RFC3339Nano), further)
}

// A recorderOutput is the recorder as one of the capture's outputs.
type recorderOutput struct{ *recorder.Recorder }

// Accounts returns the session's accounts: packets that are or were in memory count as captured,
// because only the end shows which of them were recorded.
func (r recorderOutput) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	return session()
}

// Summarize adds the numbers of recordings and further triggers.
func (r recorderOutput) Summarize(s *outputs.Summary) {
	recordings, passedOver := r.Recordings()
	s.Recordings, s.TriggersPassedOver = &recordings, passedOver
}

// triggerBySignal lets SIGUSR2 trigger the recorder until the returned function is called.
func (r *captureRun) triggerBySignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR2)
	go func() {
		for range signals {
			r.recorder.Trigger("SIGUSR2")
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}
