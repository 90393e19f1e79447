package cli

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// printed is an output that goes to standard output. If its reader ends, as in `| head`, everything
// ends without an error, and packets that come later are not sampled.
type printed struct {
	capture.Output
	gone bool // the reader has ended
}

func (o *printed) Write(packets []capture.Packet) error { return o.quiet(o.Output.Write(packets)) }
func (o *printed) Flush() error                         { return o.quiet(o.Output.Flush()) }

func (o *printed) End(final capture.Accounts) (capture.Accounts, error) {
	own, err := o.Output.End(final)
	if err = o.quiet(err); !o.gone {
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

// errReaderGone ends a capture or a reading when nobody reads standard output any more.
var errReaderGone = fmt.Errorf("%w: the reader of standard output has ended", capture.ErrEnough)

// quiet replaces the error that nobody reads by errReaderGone, which ends everything without an
// error.
func (o *printed) quiet(err error) error {
	if !errors.Is(err, unix.EPIPE) {
		return err
	}
	o.gone = true
	return errReaderGone
}
