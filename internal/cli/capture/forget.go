package capture

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// forgetSettings forgets the settings that have no effect on this capture, because they were meant
// for others. The same flags are refused by check when they are typed.
func (o *Options) forgetSettings(flags *pflag.FlagSet) {
	forget := func(without bool, names ...string) {
		if without {
			frame.ForgetSettings(flags, names...)
		}
	}
	forget(!o.follows(), "except")
	forget(!o.drops.on, "reason")
	forget(o.drops.on, elsewhere...) // --direction is one of them
	forget(strings.EqualFold(o.directionName, "out"), receiving...)
	forget(o.hookMap != "", "direction", "slower-than", "reason-map")
	forget(o.hookMap != "" || o.follows(), counting...)
	forget(o.follows(), "promiscuous-mode")
	sflow := o.WritesTo(outputs.SFlowScheme)
	forget(sflow, "first")
	forget(!sflow, "sflow-agent")
	forget(!sflow && o.companions.isNone(), "counter-interval")
	forget(!o.sends(), "tls-cert", "tls-key", "tls-ca")
	records := flags.Changed("ring")
	forget(!records, "trigger", "trigger-interval", "post")
	forget(true, o.IdleRotation(records)...)
}

// sends tells whether packets are sent by TCP.
func (o *Options) sends() bool {
	return o.Live.Serve != "" && !o.Live.IsLocal() || o.WritesTo("tcp")
}
