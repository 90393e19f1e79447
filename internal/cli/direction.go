package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
)

// receiving are flags that are about what an interface receives, and nothing without that.
var receiving = []string{"sink", "rx-capture", "program", "verdict", "filter-at", "xdp-mode", "promiscuous-mode", "stats", "latency"}

// checkDirection reads -Q, and finds what does not go with it.
func (o *captureOptions) checkDirection(given func(flag string) bool) (err error) {
	if o.direction, err = capture.ParseDirection(strings.ToLower(o.directionName)); err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if o.direction != capture.In && o.hookMap != "" {
		return fmt.Errorf("-Q %v and --hook: a hook map has received packets alone", o.direction)
	}
	if o.direction != capture.Out {
		return nil
	}
	if i := slices.IndexFunc(receiving, given); i >= 0 {
		return fmt.Errorf("-Q out and --%s: that is about what is received: omit it, or say -Q inout", receiving[i])
	}
	if o.sample.verdicts != nil {
		return fmt.Errorf("-Q out and --sample %s: what is sent has no verdict: say -Q inout for that of what is received", &o.sample)
	}
	if o.recorder.needsVerdict {
		return errors.New("-Q out and --trigger: what is sent has no verdict: say -Q inout for that of what is received")
	}
	return nil
}

// printFilter does what -d asks for. inbound and outbound are what -Q makes of them.
func (o *captureOptions) printFilter(out io.Writer) error {
	d, err := capture.ParseDirection(strings.ToLower(o.directionName))
	if err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if d != capture.InOut {
		return o.filter.print(out, o.snapLen.Bytes, d == capture.Out)
	}
	var in, sent strings.Builder
	errIn := o.filter.print(&in, o.snapLen.Bytes, false)
	errSent := o.filter.print(&sent, o.snapLen.Bytes, true)
	switch {
	case errIn != nil && errSent != nil:
		return errIn
	case in.String() != sent.String():
		return errors.New("-d: what is received and what is sent have different filters here: say -Q in or -Q out")
	}
	_, err = io.WriteString(out, in.String())
	return err
}
