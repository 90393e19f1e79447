package capture

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// A rule refuses flags that have no effect on some captures.
type rule struct {
	flags []string
	when  func(o *Options) bool // on which captures
	why   string                // the error; %s is the flag without its dashes, and %i the pattern of -i
}

// applyRules refuses flags that have no effect on this capture. If a file or the environment has
// set such a flag, it resets the flag instead, because it was set for other captures.
func (o *Options) applyRules(flags *pflag.FlagSet) error {
	for _, r := range rules {
		if !r.when(o) {
			continue
		}
		frame.ForgetSettings(flags, r.flags...)
		if i := slices.IndexFunc(r.flags, flags.Changed); i >= 0 && r.when(o) {
			return errors.New(strings.NewReplacer("%s", r.flags[i], "%i", o.interfaces.Pattern()).Replace(r.why))
		}
	}
	frame.ForgetSettings(flags, o.IdleRotation(flags.Changed("ring"))...) // Rotation refuses them
	return nil
}

// rules are applied in this order.
var rules = []rule{
	{[]string{"except"}, func(o *Options) bool { return !o.interfaces.HasPattern() },
		"--except omits interfaces that -i any or a pattern such as -i 'veth*' finds: add one of these"},
	{[]string{"promiscuous-mode"}, func(o *Options) bool { return o.follows() && o.promiscuous },
		"-P and -i %i: as with tcpdump, promiscuous mode is for interfaces that are named: name the interfaces, each with its own -i"},
	{counting, func(o *Options) bool { return o.follows() && !o.companions.isNone() },
		"--%s and -i %i: counters beside the packets are for interfaces that are there from the beginning: name the interfaces, each with its own -i"},

	{[]string{"fragments"}, func(o *Options) bool { return o.filter.Text == "" && o.filter.Program == nil },
		"--fragments lets the filter decide about fragments, and there is no filter: add one, or omit it"},

	// Packets that the stack drops have passed no hook of an interface.
	{[]string{"reason"}, func(o *Options) bool { return !capturesDrops(o) && o.session.ReasonMap == "" },
		"--reason chooses among the packets that the stack throws away, or that an XDP program drops: add --drops or --reason-map"},
	{[]string{"except", "reason-map"}, func(o *Options) bool { return capturesDrops(o) && o.interfaces.HasPattern() },
		"--drops -i %i and --%s: this flag is for named interfaces or their XDP programs: omit it, or name the interfaces, each with its own -i"},
	{notWithDrops, capturesDrops,
		"--drops and --%s: this flag is for packets at the interface, not for those that the stack throws away: omit it, or --drops"},

	// A hook map has only received packets, as its owner passes them on.
	{[]string{"direction"}, func(o *Options) bool { return hasHookMap(o) && !strings.EqualFold(o.directionName, "in") },
		"-Q and --hook: a hook map has only received packets: omit -Q"},
	{[]string{"slower-than"}, hasHookMap, "--slower-than and --hook: " + noRunTime},
	{[]string{"reason-map"}, hasHookMap, "--reason-map and --hook: a hook map has no reasons: trace the program that calls it, with -i"},
	{counting, func(o *Options) bool { return hasHookMap(o) && !o.companions.isNone() },
		"--%s counts what an interface receives or sends, but a hook map has only what its owner hands over: omit it, or count beside the capture with xdpcap count"},

	{withoutHookMap, hasHookMap, "--%s and --hook: a hook map is captured alone, and has what its owner hands over"},

	{pastXDP, func(o *Options) bool { return o.at == capture.AtIngress.String() },
		"--at tc and --%s: this flag is for packets at XDP, and those at tc have passed it: omit it, or say --at xdp"},

	{givingWay, func(o *Options) bool { return o.session.GiveWay },
		"--give-way and --%s: this flag keeps a capture at one hook: omit it, or --give-way"},

	{[]string{"reload-filter"}, func(o *Options) bool { return o.filter.File == "" },
		"--reload-filter reads the file of -F again: give the filter as -F FILE"},
	{[]string{"reload-filter"}, func(o *Options) bool { return !o.filter.CanReread() },
		"--reload-filter reads the file of -F again, and standard input or a pipe can be read once: give a regular file"},
	{refiltering, func(o *Options) bool { return o.session.FilterChanges },
		"--reload-filter and --%s: with --%s a capture keeps the filter that it begins with: omit one of them"},

	{receiving, func(o *Options) bool { return strings.EqualFold(o.directionName, "out") },
		"-Q out and --%s: this flag is for received packets: omit it, or say -Q inout"},

	// Outputs.
	{[]string{"first"}, sendsSFlow,
		"--first and -w sflow://: a collector multiplies samples by their rate, and the first packets of a flow have none: omit --first"},
	{[]string{"sflow-agent"}, not(sendsSFlow), "--sflow-agent: nothing is sent to an sFlow collector: add -w sflow://HOST"},
	{[]string{"counter-interval"}, func(o *Options) bool { return !sendsSFlow(o) && o.companions.isNone() },
		"--counter-interval: nothing is sent to an sFlow collector, or counted for a file: add -w sflow://HOST, or --count"},
	{[]string{"tls-cert", "tls-key", "tls-ca"}, not((*Options).sends),
		"--%s: nothing is sent: add --serve HOST:PORT or -w tcp://HOST:PORT"},
	{[]string{"trigger", "trigger-interval", "post"}, func(o *Options) bool { return o.recorder.size.Bytes == 0 },
		"--%s: nothing is kept in memory: add --ring SIZE"},
}

// notWithDrops are flags about packets at the hooks of an interface.
var notWithDrops = capture.FlagsWithout(capture.ThrownAway)

// withoutHookMap are flags about packets at the hooks of an interface. The direction and the
// counters have rules of their own.
var withoutHookMap = slices.DeleteFunc(capture.FlagsWithout(capture.FromHookMap), func(flag string) bool {
	return flag == "direction" || slices.Contains(counting, flag)
})

// ofPrograms count what XDP programs do.
var ofPrograms = []string{"stats", "latency"}

// pastXDP are flags about packets at XDP.
var pastXDP = append(capture.FlagsWithout(capture.PastXDP), ofPrograms...)

// refiltering are flags about programs whose filter does not change.
var refiltering = capture.FlagsWithout(capture.Refiltering)

// givingWay are flags about a capture that stays at one hook.
var givingWay = capture.FlagsWithout(capture.GivingWay)

// receiving are flags about received packets.
var receiving = append(capture.FlagsWithout(capture.SentOnly), ofPrograms...)

func not(is func(*Options) bool) func(*Options) bool { return func(o *Options) bool { return !is(o) } }

func capturesDrops(o *Options) bool { return o.session.StackDrops }

func hasHookMap(o *Options) bool { return o.session.HookMap != "" }

const noRunTime = "a hook map has no run times: trace the program that calls it, with -i"

func sendsSFlow(o *Options) bool { return o.WritesTo(outputs.SFlowScheme) }

// sends reports whether packets are sent by TCP.
func (o *Options) sends() bool {
	return o.Live.Serve != "" && !o.Live.IsLocal() || o.WritesTo("tcp")
}
