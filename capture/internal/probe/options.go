package probe

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// MaxVerdicts bounds Options.Verdicts, because each packet's verdict is compared with all of them.
const MaxVerdicts = int(kernel.SamplerLimitMAX_VERDICTS)

// The kinds of errors of hooks, which package capture documents.
var (
	ErrTraced    = errors.New("not possible where a program is traced")
	ErrNoVerdict = errors.New("not possible without verdicts")
	ErrNeedsExit = errors.New("needs the exit of a traced program")
	ErrNoStamp   = errors.New("packets cannot have these time stamps")
	ErrNoClock   = errors.New("the card has no clock that can be compared")
)

// Options define where programs are attached and which packets they send. Fields are those of
// capture.Options with the same names, checked and with their defaults filled in.
type Options struct {
	Interfaces       []string
	Patterns, Except []string
	SourcesChange    bool // interfaces, their hooks or their filters change during the session
	Filter           string
	FilterSets       map[string]filter.Set
	VLANAware        bool
	Fragments        bool
	VXLANPort        uint16
	FilterProgram    []bpf.RawInstruction
	FilterChanges    bool

	At         At
	NeedsXDP   bool // an option has no meaning but at XDP
	Mode       packet.Mode
	Direction  packet.Direction
	HookMap    string
	Hooks      []packet.Hook
	Targets    []string
	StackDrops bool
	Reasons    []string
	ReasonMap  string

	FilterAtExit bool
	Sink         bool
	Stamp        Stamp
	VLANRestore  VLANRestore
	Hash         bool

	SnapLen        int
	HeadersOnly    bool
	Payload        int
	Verdicts       []packet.Verdict
	TCVerdicts     []packet.Verdict
	SlowerThan     time.Duration
	SampleFlows    uint32
	First          uint64
	Sample         uint32
	SampleVerdicts map[packet.Verdict]uint32
	Adaptive       bool
	MaxRate        uint64

	// Companions returns the programs that run before and after the sampler's own code at a source;
	// nil = none do.
	Companions func(packet.Source) (first, last []*ebpf.ProgramSpec, err error)

	// Notice is called with facts that a user should know; it does nothing with nil.
	Notice func(error)
}

// oneIn is the sampling rate: the programs keep one of this many packets; 0 = it is not constant.
func (o *Options) oneIn() uint32 {
	if o.SampleVerdicts != nil || o.Adaptive {
		return 0
	}
	return o.Sample
}

// oneInOf returns the rates of the verdicts, as the program expects them.
func (o *Options) oneInOf() (rates [xdp.Verdicts]uint32) {
	for v := range rates {
		rates[v] = max(o.SampleVerdicts[packet.Verdict(v)], 1)
	}
	return rates
}

// bucketRate is the rate of the token bucket, in packets per second; 0 = no bucket. An adaptive
// session has none, because packets that pass a bucket have no known weight.
func (o *Options) bucketRate() uint64 {
	if o.Adaptive {
		return 0
	}
	return o.MaxRate
}

// ChoosesFlows reports whether packets are chosen by their flows.
func (o *Options) ChoosesFlows() bool { return o.SampleFlows > 1 || o.First > 0 }
