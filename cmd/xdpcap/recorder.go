package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// recorderOptions are the flags of the flight recorder.
type recorderOptions struct {
	size  size
	post  time.Duration
	words []string // --trigger

	triggers     []capture.Trigger
	needsVerdict bool // a trigger is about one
	atEnd        bool
}

func (o *recorderOptions) flags(f *pflag.FlagSet) {
	o.size = size{unit: 1}
	f.Var(&o.size, "ring", "keep the last packets in memory of this `size`, 256M, and write them to -w when something happens, or on SIGUSR2")
	f.StringArrayVar(&o.words, "trigger", nil, "what happens: aborted or another verdict, lost, drop>1000/s or the like, end, or a `filter`; repeat it for several")
	durationVar(f, &o.post, "post", 0, "write what follows within this `time`, too")
}

// checkRecorder finds what is wrong with the flags; given tells which were set.
func (c *captureOptions) checkRecorder(given func(flag string) bool) error {
	o, write := &c.recorder, c.write
	switch {
	case !given("ring") && given("trigger"):
		return errors.New("--trigger: nothing is kept in memory: add --ring SIZE")
	case !given("ring") && given("post"):
		return errors.New("--post: nothing is kept in memory: add --ring SIZE")
	case !given("ring"):
		return nil
	case o.size.bytes < capture.MinRecorder:
		return fmt.Errorf("--ring %s: must be at least %dM", o.size.String(), capture.MinRecorder>>20)
	case write == "" || isStdout(write):
		return errors.New("--ring: each trigger makes a file: name them by -w FILE, for FILE-1, FILE-2 and so on")
	case len(c.files()) > 1:
		return fmt.Errorf("--ring: -w names %d files: choose one, for FILE-1, FILE-2 and so on", len(c.files()))
	}
	if flag := givenRotation(given); flag != "" {
		return fmt.Errorf("%s and --ring: each trigger makes a file: choose one", flag)
	}
	for _, text := range o.words {
		if strings.TrimSpace(text) == "end" {
			o.atEnd = true
			continue
		}
		t, needsVerdict, err := parseTrigger(text, c.filter.vlanAware)
		if err != nil {
			return fmt.Errorf("--trigger: %w", err)
		}
		o.triggers = append(o.triggers, t)
		o.needsVerdict = o.needsVerdict || needsVerdict
	}
	return nil
}

// openRecorder makes the recorder, and looks whether it will be able to make files.
func (r *captureRun) openRecorder() (err error) {
	if err := r.o.sandbox.try(func() error { return outfile.TryDirectory(filepath.Dir(r.o.write)) }); err != nil {
		return fmt.Errorf("-w: %w", err)
	}
	names := fileNames(r.o.write)
	r.recorder, err = capture.NewRecorder(capture.RecorderOptions{
		Size:     int(r.o.recorder.size.bytes),
		Post:     r.o.recorder.post,
		Triggers: r.o.recorder.triggers,
		AtEnd:    r.o.recorder.atEnd,
		Open: func() (*capture.File, string, error) {
			name, options := names(), r.writer(r.o.file())
			options.StatisticsInterval = 0 // a recording's are about its packets, which are there at once
			file, err := openOutput(name, nil, true, options)
			written.recorded.Store(file)
			return file, name, err
		},
		Done: func(done capture.Recording) { r.notices.add(recorded{done}) },
	})
	if err != nil {
		return fmt.Errorf("--ring: %w", err)
	}
	return nil
}

// A recorded is the notice of a recording.
type recorded struct{ capture.Recording }

func (r recorded) Error() string {
	further := ""
	if r.Further > 0 {
		further = fmt.Sprintf(", and %d triggers while they were written", r.Further)
	}
	return fmt.Sprintf("%s: %s recorded because of: %s, at %s%s",
		r.File, packets(r.Packets), r.Trigger, r.Time.Format(time.RFC3339Nano), further)
}

// fileNames returns the names of one file after the other: FILE-1, FILE-2, where the number stands
// before the suffix. A file that is there already, from a recorder before, keeps its name.
func fileNames(path string) func() string {
	dir, name := filepath.Split(path)
	stem, suffix := name, ""
	if i := strings.IndexByte(name[1:], '.'); i >= 0 {
		stem, suffix = name[:i+1], name[i+1:]
	}
	n := 0
	return func() string {
		for {
			n++
			next := fmt.Sprintf("%s%s-%d%s", dir, stem, n, suffix)
			if _, err := os.Lstat(next); errors.Is(err, os.ErrNotExist) {
				return next
			}
		}
	}
}

// triggerBySignal lets SIGUSR2 trigger the recorder until the returned function is called.
func (r *captureRun) triggerBySignal() (stop func()) {
	asked, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(asked, unix.SIGUSR2)
	go func() {
		for {
			select {
			case <-asked:
				r.recorder.Trigger("SIGUSR2")
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(asked)
		close(done)
	}
}
