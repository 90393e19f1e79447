package capture

import (
	"slices"

	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// checkSFlow finds mistakes in the flags. given says which flags were set.
func (c *Options) checkSFlow(given func(flag string) bool) error {
	o := &c.SFlow
	isSFlow := func(t outputs.Target) bool { return t.URL != nil && t.URL.Scheme == outputs.SFlowScheme }
	if !sendsSFlow(c) {
		return nil
	}
	if given("sflow-agent") {
		if err := o.ReadAgent(); err != nil {
			return err
		}
	}
	switch {
	case c.snapLen.headers:
		o.Header = sflow.DefaultHeader + int(c.snapLen.payload)
	case given("snapshot-length"):
		o.Header = int(c.snapLen.Bytes)
	case !c.Print && c.Live.Serve == "" && !slices.ContainsFunc(c.Targets, func(t outputs.Target) bool { return !isSFlow(t) }):
		c.snapLen.Bytes = sflow.DefaultHeader
	}
	return nil
}
