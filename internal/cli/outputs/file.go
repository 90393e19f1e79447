package outputs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// OpenFile opens the file or standard output of a -w, before a program is attached. series is nil
// for one file. An existing file is overwritten, unless noOverwrite is set.
func (d *Destinations) OpenFile(path string, series *file.Rotation, noOverwrite bool, o file.Options) (f *file.File, err error) {
	if frame.IsStdout(path) {
		if err := checkTakesFile(path, d.Flags.Process.Stdout.File); err != nil {
			return nil, err
		}
		o.Name = frame.StdoutName
		f, err = file.New(d.Flags.Process.Stdout.File, o)
	} else {
		if series == nil {
			series = &file.Rotation{Path: func(file.Place) string { return path }}
		}
		series.NoOverwrite = noOverwrite
		if f, err = file.OpenSeries(*series, o); err != nil {
			err = fmt.Errorf("-w: %w", err)
		}
	}
	if input := (InputError{}); errors.As(err, &input) {
		return nil, InputError{Path: path}
	}
	return f, err
}

// An InputError refuses to overwrite a file that is being read.
type InputError struct{ Path string }

// Error names the file.
func (e InputError) Error() string {
	return fmt.Sprintf("-w %s: this file is being read: choose another one", e.Path)
}

// openFile opens a file of -w, or the first file of a series. It also checks that later files of
// the series can be created.
func (d *Destinations) openFile(ctx context.Context, t *Target) (opened *file.File, err error) {
	o, flags := d.Writer(t), d.Flags
	box := &flags.Sandbox
	var series *file.Rotation
	if t.Name == flags.Write && flags.Series != nil {
		series = flags.Series
		series.NoOverwrite = flags.Rotate.noOverwrite
		trust := box.Opener().Trust(t.Name)
		o.Owners, o.NoLinks = trust.Owners, trust.NoLinks
		err := box.Try(func() error { return file.TrySeries(*series, o) })
		if err == nil {
			err = series.CheckFree()
		}
		if err != nil {
			return nil, fmt.Errorf("-w: %w", err)
		}
	}
	err = box.Opener().Open(t.Name, func(trust outfile.Trust) error {
		o.Owners, o.NoLinks = trust.Owners, trust.NoLinks
		return frame.AwaitReader(ctx, func() error {
			opened, err = d.OpenFile(t.Name, series, flags.Rotate.noOverwrite, o)
			return err
		})
	})
	return opened, err
}

// checkTakesFile refuses to write a capture file to a terminal, or to a closed standard output.
// path is the value of -w.
func checkTakesFile(path string, stdout *os.File) error {
	if term.IsTerminal(int(stdout.Fd())) {
		return fmt.Errorf("-w %s: standard output is a terminal; pipe it into a program, or omit -w to see packets", path)
	}
	if err := frame.CheckNotClosed("packets", "-w /dev/null"); err != nil {
		return fmt.Errorf("-w %s: %w", path, err)
	}
	return nil
}

// progress counts the bytes that the outputs have accepted, which shows whether an ending makes
// progress.
type progress struct {
	destinations atomic.Pointer[[]destination] // nil before they are open
	recorded     atomic.Pointer[file.File]     // the recorder's last file; nil = none
}

func (p *progress) bytes() (n int64) {
	if all := p.destinations.Load(); all != nil {
		for _, d := range *all {
			n += d.Size()
		}
	}
	if f := p.recorded.Load(); f != nil {
		n += f.Size()
	}
	return n
}

// RecordTo sets the file that a recorder writes now.
func (d *Destinations) RecordTo(f *file.File) {
	d.taken.recorded.Store(f)
	d.Flags.Process.CountTaken(d.taken.bytes)
}
