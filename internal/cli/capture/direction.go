package capture

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
)

// receiving are flags about received packets, which have no effect if only sent packets are
// captured.
var receiving = []string{"sink", "rx-capture", "program", "verdict", "slower-than", "reason-map", "filter-at", "xdp-mode", "promiscuous-mode", "stats", "latency"}

// checkDirection reads -Q, and refuses flags that do not go with it.
func (o *Options) checkDirection(given func(flag string) bool) (err error) {
	if o.direction, err = capture.ParseDirection(strings.ToLower(o.directionName)); err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if o.direction != capture.In && o.hookMap != "" {
		return fmt.Errorf("-Q %v and --hook: a hook map has only received packets", o.direction)
	}
	if o.direction != capture.Out {
		return nil
	}
	if i := slices.IndexFunc(receiving, given); i >= 0 {
		return fmt.Errorf("-Q out and --%s: this flag is for received packets: omit it, or say -Q inout", receiving[i])
	}
	if o.sample.verdicts != nil {
		return fmt.Errorf("-Q out and --sample %s: sent packets have no verdict: say -Q inout for those of received packets", &o.sample)
	}
	if o.recorder.atExit != needNothing {
		return fmt.Errorf("-Q out and --trigger: sent packets have no %v: say -Q inout for those of received packets", o.recorder.atExit)
	}
	return nil
}

// printFilter does what -d asks for.
func (o *Options) printFilter(out io.Writer) error {
	return o.filter.PrintFor(out, o.snapLen.Bytes, o.directionName)
}
