package capture

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// maxRate is the upper bound of Options.MaxRate, in packets per second: no interface is faster, and
// the unit of the token bucket is fine enough for it.
const maxRate = 1e9

// withDefaults checks the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	for _, check := range []func(*Options) error{
		(*Options).checkPoints, (*Options).checkScopes, (*Options).checkPatterns, (*Options).checkHooks, (*Options).checkStackDrops,
		(*Options).checkSampling, (*Options).checkRings, (*Options).checkSnapLen,
	} {
		if err := check(&o); err != nil {
			return o, err
		}
	}
	o.Interfaces = slices.Clone(o.Interfaces)
	o.Sample = max(o.Sample, 1)
	o.SampleFlows = max(o.SampleFlows, 1)
	return o, nil
}

// A Scope is a choice of packets for which some options have no meaning.
type Scope int

const (
	FromHookMap   Scope = 1 << iota // Options.HookMap
	ThrownAway                      // Options.StackDrops
	SentOnly                        // Options.Direction is Out
	AnyInterfaces                   // Options.Patterns
	PastXDP                         // Options.At is AtIngress
	GivingWay                       // Options.GiveWay
	Refiltering                     // Options.FilterChanges
)

var scopes = []struct {
	scope Scope
	isSet func(*Options) bool
	field string // the option that sets it
	why   string // the reason why some options have no meaning, for an error
}{
	{FromHookMap, func(o *Options) bool { return o.HookMap != "" }, "HookMap", "a hook map is captured alone, and has the received packets that its owner passes to it"},
	{ThrownAway, func(o *Options) bool { return o.StackDrops }, "StackDrops", "packets that the stack throws away pass no XDP program, and are looked for at no hook of an interface"},
	{SentOnly, func(o *Options) bool { return o.Direction == Out }, "Direction Out", "sent packets pass no XDP program"},
	{AnyInterfaces, func(o *Options) bool { return len(o.Patterns) > 0 }, "Patterns", "this is for interfaces that are named: list them in Interfaces"},
	{PastXDP, func(o *Options) bool { return o.At == AtIngress }, "AtIngress", "packets at tc ingress have passed XDP"},
	{GivingWay, func(o *Options) bool { return o.GiveWay }, "GiveWay", "this keeps a session at one hook"},
	{Refiltering, func(o *Options) bool { return o.FilterChanges }, "FilterChanges", "this is for programs whose filter stays as it is"},
}

// A restriction has the scopes in which an option has no meaning.
type restriction struct {
	field string   // of Options
	flags []string // of the command line
	isSet func(*Options) bool
	in    Scope // one or several, joined by |
}

var restrictions = []restriction{
	{"Interfaces", nil, func(o *Options) bool { return len(o.Interfaces) > 0 }, FromHookMap},
	{"HookMap", []string{"hook"}, func(o *Options) bool { return o.HookMap != "" }, ThrownAway | AnyInterfaces | PastXDP | Refiltering},
	{"At", []string{"at"}, func(o *Options) bool { return o.At == AtIngress }, FromHookMap | ThrownAway | SentOnly},
	{"Direction", []string{"direction"}, func(o *Options) bool { return o.Direction != In }, FromHookMap | ThrownAway},
	{"Sink", []string{"sink"}, func(o *Options) bool { return o.Sink },
		FromHookMap | ThrownAway | SentOnly | AnyInterfaces | PastXDP | GivingWay},
	{"Hooks", []string{"rx-capture"}, func(o *Options) bool { return len(o.Hooks) > 0 },
		FromHookMap | ThrownAway | SentOnly | PastXDP | GivingWay},
	{"Targets", []string{"program"}, func(o *Options) bool { return len(o.Targets) > 0 },
		FromHookMap | ThrownAway | SentOnly | PastXDP | GivingWay},
	{"Verdicts", []string{"verdict"}, func(o *Options) bool { return len(o.Verdicts) > 0 }, ThrownAway | SentOnly | PastXDP | GivingWay},
	{"TCVerdicts", nil, func(o *Options) bool { return len(o.TCVerdicts) > 0 }, ThrownAway | SentOnly | PastXDP | GivingWay},
	{"SlowerThan", []string{"slower-than"}, func(o *Options) bool { return o.SlowerThan != 0 }, FromHookMap | ThrownAway | SentOnly | PastXDP | GivingWay},
	{"ReasonMap", []string{"reason-map"}, func(o *Options) bool { return o.ReasonMap != "" }, FromHookMap | SentOnly | PastXDP | GivingWay},
	{"FilterAtExit", []string{"filter-at"}, func(o *Options) bool { return o.FilterAtExit }, ThrownAway | SentOnly | PastXDP | GivingWay},
	{"SampleVerdicts", nil, func(o *Options) bool { return o.SampleVerdicts != nil }, ThrownAway | SentOnly | PastXDP | GivingWay},
	{"Mode", []string{"xdp-mode"}, func(o *Options) bool { return o.Mode != Auto }, FromHookMap | ThrownAway | SentOnly | PastXDP},
	{"Promiscuous", []string{"promiscuous-mode"}, func(o *Options) bool { return o.Promiscuous == PromiscuousOn },
		FromHookMap | ThrownAway | SentOnly | AnyInterfaces | GivingWay},
	{"VLANRestore", []string{"vlan-restore"}, func(o *Options) bool { return o.VLANRestore == VLANRestoreOn }, ThrownAway},
	{"Stamp", nil, func(o *Options) bool { return o.Stamp.IsCards() }, ThrownAway | AnyInterfaces | PastXDP | GivingWay},
	{"Companions", []string{"stats", "count", "sizes", "flows", "latency"}, func(o *Options) bool { return o.Companions != nil },
		FromHookMap | ThrownAway | AnyInterfaces | GivingWay | Refiltering},
	{"StackDrops", []string{"drops"}, func(o *Options) bool { return o.StackDrops }, Refiltering},
	{"GiveWay", []string{"give-way"}, func(o *Options) bool { return o.GiveWay }, FromHookMap | ThrownAway | SentOnly | PastXDP},
}

// checkScopes rejects options that have no meaning for the packets that are captured.
func (o *Options) checkScopes() error {
	for _, s := range scopes {
		for _, r := range restrictions {
			if r.in&s.scope != 0 && s.isSet(o) && r.isSet(o) {
				return fmt.Errorf("%s and %s: %s", r.field, s.field, s.why)
			}
		}
	}
	return nil
}

// needsXDP reports whether an option is set that has a meaning only at XDP. GiveWay does not count:
// it allows XDP, and does not need it.
func (o *Options) needsXDP() bool {
	return slices.ContainsFunc(restrictions, func(r restriction) bool {
		return r.in&PastXDP != 0 && r.field != "GiveWay" && r.isSet(o)
	})
}

// FlagsWithout returns the flags of the command line for options that have no meaning in a scope.
func FlagsWithout(scope Scope) (flags []string) {
	for _, r := range restrictions {
		if r.in&scope != 0 {
			flags = append(flags, r.flags...)
		}
	}
	return flags
}

// checkPoints checks the options about where packets are captured.
func (o *Options) checkPoints() error {
	if o.Stamp < HostStamp || o.Stamp > AdapterUnsyncedStamp {
		return fmt.Errorf("%v: no such type of time stamps", o.Stamp)
	}
	if len(o.Interfaces) == 0 && o.HookMap == "" && len(o.Patterns) == 0 && !o.GiveWay {
		return errors.New("no interface to capture on")
	}
	if o.At < AtXDP || o.At > AtAuto {
		return fmt.Errorf("%v does not exist: must be AtXDP, AtIngress or AtAuto", o.At)
	}
	if o.Direction < In || o.Direction > InOut {
		return fmt.Errorf("%v does not exist: must be In, Out or InOut", o.Direction)
	}
	return nil
}

func (o *Options) checkPatterns() error {
	o.Patterns, o.Except = slices.Clone(o.Patterns), slices.Clone(o.Except)
	for _, pattern := range slices.Concat(o.Patterns, o.Except) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern of interfaces %q: %w", pattern, err)
		}
	}
	if !o.hooksChange() && len(o.Except) > 0 && !o.StackDrops {
		return errors.New("there are no Patterns, so there is nothing that Except could omit")
	}
	return nil
}

func (o *Options) checkHooks() error {
	exits := slices.Contains(o.Hooks, Exit)
	o.Verdicts = slices.Compact(slices.Sorted(slices.Values(o.Verdicts)))
	o.TCVerdicts = slices.Compact(slices.Sorted(slices.Values(o.TCVerdicts)))
	verdicts := max(len(o.Verdicts), len(o.TCVerdicts))
	switch {
	case verdicts > probe.MaxVerdicts:
		return fmt.Errorf("%d verdicts to keep: must be at most %d", verdicts, probe.MaxVerdicts)
	case len(o.Verdicts) == 0 && verdicts > 0 && len(o.Targets) == 0:
		return errors.New("verdicts of tc need the name of a program there in Targets")
	case slices.ContainsFunc(o.Hooks, func(h Hook) bool { return !h.Traces() }):
		return errors.New("hooks: must be Entry or Exit")
	case o.SlowerThan < 0 || o.SlowerThan > MaxRunTime:
		return fmt.Errorf("packets for which the program ran at least %v: must be 0 to %v", o.SlowerThan, MaxRunTime)
	case verdicts > 0 && o.HookMap == "" && len(o.Hooks) == 0:
		return message.Errorf(ErrNeedsExit, "verdicts are known only at a program's exit")
	case o.SlowerThan > 0 && len(o.Hooks) == 0:
		return message.Errorf(ErrNeedsExit, "run times are known only at a program's exit")
	case o.ReasonMap != "" && !exits && !o.StackDrops && !o.probe().AwaitsExits():
		return message.Errorf(ErrNeedsExit, "the reasons of a program are known only at its exit")
	case o.FilterAtExit && o.HookMap == "" && (!exits || len(o.Hooks) > 1):
		return message.Errorf(ErrNeedsExit, "a filter at the exit needs exits alone, without entries")
	}
	return nil
}

// checkStackDrops checks StackDrops, and Reasons, which are those of the stack or of a program.
func (o *Options) checkStackDrops() error {
	hasPatterns := len(o.Patterns)+len(o.Except) > 0
	isAll := slices.Equal(o.Patterns, []string{"*"}) && len(o.Interfaces)+len(o.Except) == 0
	switch {
	case o.StackDrops && hasPatterns && !isAll:
		return errors.New("StackDrops: what the stack throws away is that of Interfaces, or of all: the pattern * alone")
	case o.StackDrops && len(o.Patterns) > 0 && o.ReasonMap != "":
		return errors.New("ReasonMap: XDP programs are not looked at for what is lost at all interfaces: name an interface")
	case !o.StackDrops && o.ReasonMap == "" && len(o.Reasons) > 0:
		return errors.New("Reasons choose among the packets that the stack throws away, or with a ReasonMap among those that an XDP program drops")
	case o.StackDrops && o.ReasonMap != "" && len(o.Reasons) > 0:
		return errors.New("Reasons keep no packet of an XDP program, so there is none whose reason could be read from a map")
	}
	o.Reasons = slices.Clone(o.Reasons)
	return nil
}

func (o *Options) checkSampling() error {
	if o.MaxRate > maxRate {
		return fmt.Errorf("rate of %d packets per second: must be at most %d", o.MaxRate, uint64(maxRate))
	}
	if o.Adaptive && (o.Sample > 1 || o.SampleVerdicts != nil) {
		return errors.New("choose either an adaptive rate or fixed rates, not both")
	}
	if o.SampleVerdicts == nil {
		return nil
	}
	for v, n := range o.SampleVerdicts {
		if v >= xdp.UnknownVerdict || n == 0 {
			return fmt.Errorf("one of %d packets with the verdict %v: the rate must be at least 1, and the verdict one of the kernel's", n, v)
		}
	}
	switch {
	case o.Sample > 1:
		return errors.New("choose either one rate for all packets or a rate for each verdict, not both")
	case o.HookMap == "" && len(o.Hooks) == 0:
		return message.Errorf(ErrNeedsExit, "rates for verdicts are for a program that is traced, because verdicts are known only at its exit")
	}
	o.SampleVerdicts = maps.Clone(o.SampleVerdicts)
	return nil
}

// checkSnapLen fills in the snapshot length and lowers it to the maximum. It lowers Payload to the
// snapshot length.
func (o *Options) checkSnapLen() error {
	// A record that takes more than half of its ring would rarely find room.
	most := min(o.Transport.MaxSnapLen(), o.Buffer/2)
	switch {
	case o.SnapLen < 0:
		return fmt.Errorf("snapshot length %d: must be 1 to %d; 0 means the maximum", o.SnapLen, most)
	case o.SnapLen > most:
		o.notice(fmt.Errorf("snapshot length %d: packets are truncated to %d bytes, the most that a record can hold", o.SnapLen, most))
		o.SnapLen = most
	case o.SnapLen == 0:
		o.SnapLen = most
	}
	switch {
	case o.Payload < 0:
		return fmt.Errorf("%d bytes of payload after the headers: must be at least 0", o.Payload)
	case o.Payload > 0 && !o.HeadersOnly:
		return fmt.Errorf("%d bytes of payload after the headers: packets are not cut there without HeadersOnly", o.Payload)
	}
	o.Payload = min(o.Payload, o.SnapLen)
	return nil
}

// checkRings chooses the transport and the size of each CPU's ring.
func (o *Options) checkRings() error {
	r := o.rings()
	err := r.Fit()
	o.Transport, o.Buffer = r.Transport, r.Size
	return err
}
