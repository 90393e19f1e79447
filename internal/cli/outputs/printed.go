package outputs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// Printed is an output to standard output. If its reader ends, as in `| head`, the run ends without
// an error, and later packets count as not sampled.
type Printed struct {
	capture.Output
	Gone bool // the reader has ended
}

// Unwrap returns the output that prints, which may have a queue.
func (o *Printed) Unwrap() capture.Output { return o.Output }

// Accounts implements Live: printed packets are Captured. For an output without accounts it returns
// those of the session.
func (o *Printed) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	if live, ok := o.Output.(accounted); ok {
		return live.Accounts(session)
	}
	return session()
}

// Write implements capture.Output.
func (o *Printed) Write(packets []capture.Packet) error {
	return o.replaceEPIPE(o.Output.Write(packets))
}

// Flush implements capture.Output.
func (o *Printed) Flush() error { return o.replaceEPIPE(o.Output.Flush()) }

// End implements capture.Output. Packets after the end of the reader become not sampled.
func (o *Printed) End(final capture.Accounts) (capture.Accounts, error) {
	own, err := o.Output.End(final)
	if err = o.replaceEPIPE(err); !o.Gone {
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

// ErrReaderGone ends a capture or a reading when the reader of standard output has ended.
var ErrReaderGone = fmt.Errorf("%w: the reader of standard output has ended", capture.ErrEnough)

// replaceEPIPE replaces EPIPE by ErrReaderGone, with which the run ends without an error.
func (o *Printed) replaceEPIPE(err error) error {
	if !errors.Is(err, unix.EPIPE) {
		return err
	}
	o.Gone = true
	return ErrReaderGone
}
