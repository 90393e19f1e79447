package printing

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// An Output goes to standard output. If its reader ends, as in `| head`, everything ends without an
// error, and packets that come later are not sampled.
type Output struct {
	capture.Output
	Gone bool // the reader has ended
}

// Write prints packets.
func (o *Output) Write(packets []capture.Packet) error { return o.quiet(o.Output.Write(packets)) }

// Flush prints what is buffered.
func (o *Output) Flush() error { return o.quiet(o.Output.Flush()) }

// End prints the rest. Packets that came after the reader had gone were not sampled.
func (o *Output) End(final capture.Accounts) (capture.Accounts, error) {
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
func (o *Output) quiet(err error) error {
	if !errors.Is(err, unix.EPIPE) {
		return err
	}
	o.Gone = true
	return ErrReaderGone
}
