package outputs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// Printed is an output to standard output. If its reader ends, as in `| head`, everything ends
// without an error, and packets that come later are not sampled.
type Printed struct {
	capture.Output
	Gone bool // the reader has ended
}

// Unwrap returns the output that prints, which may have a queue.
func (o *Printed) Unwrap() capture.Output { return o.Output }

// Accounts returns the accounts so far: packets that were printed are Captured. The output must
// know its own, as a File and a Printer do. Any goroutine may call it.
func (o *Printed) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	if live, ok := o.Output.(accounted); ok {
		return live.Accounts(session)
	}
	return session()
}

// accounted is an output that knows its accounts while the capture runs.
type accounted interface {
	Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error)
}

// Write prints packets.
func (o *Printed) Write(packets []capture.Packet) error { return o.quiet(o.Output.Write(packets)) }

// Flush prints what is buffered.
func (o *Printed) Flush() error { return o.quiet(o.Output.Flush()) }

// End prints the rest. Packets that came after the reader had gone were not sampled.
func (o *Printed) End(final capture.Accounts) (capture.Accounts, error) {
	own, err := o.Output.End(final)
	if err = o.quiet(err); !o.Gone {
		return own, err
	}
	for i := range own {
		a := &own[i]
		missed := a.NotTaken - final[i].NotTaken
		a.NotSampled += missed
		a.Lost -= missed
		a.NotTaken -= missed
	}
	return own, nil
}

// ErrReaderGone ends a capture or a reading when nobody reads standard output any more.
var ErrReaderGone = fmt.Errorf("%w: the reader of standard output has ended", capture.ErrEnough)

// quiet replaces the error that nobody reads by ErrReaderGone, which ends everything without an
// error.
func (o *Printed) quiet(err error) error {
	if !errors.Is(err, unix.EPIPE) {
		return err
	}
	o.Gone = true
	return ErrReaderGone
}
