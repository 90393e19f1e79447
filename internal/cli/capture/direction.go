package capture

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
)

// Words of a filter that mean both directions, and that choose one.
var bothWays, oneWay = regexp.MustCompile(`\b(host|net|port|portrange)\b`), regexp.MustCompile(`\b(src|dst|inbound|outbound)\b`)

// checkDirection reads -Q, and refuses what sent packets do not have.
func (o *Options) checkDirection(given func(flag string) bool) (err error) {
	o.halfSeen = !given("direction") && o.session.HookMap == "" && !o.session.StackDrops && !o.session.Sink && len(o.verdictNames) == 0 &&
		bothWays.MatchString(o.filter.Text) && !oneWay.MatchString(o.filter.Text)
	if o.session.Direction, err = capture.ParseDirection(strings.ToLower(o.directionName)); err != nil {
		return fmt.Errorf("-Q: %w", err)
	}
	if o.session.Direction != capture.Out {
		return nil
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
