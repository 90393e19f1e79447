package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// maxRate bounds Options.MaxRate: no interface is faster, and the token bucket can still tell two
// packets apart.
const maxRate = 1e9

// maxVerdicts bounds Options.Verdicts, because each packet's verdict is compared with all of them.
const maxVerdicts = int(samplerLimitMAX_VERDICTS)

// withDefaults checks the options and fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	for _, check := range []func(*Options) error{
		(*Options).checkPlaces, (*Options).checkDirection, (*Options).checkHooks, (*Options).checkSampling, (*Options).checkRings,
		(*Options).checkSnapLen,
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

func (o *Options) checkPlaces() error {
	if o.Stamp < HostStamp || o.Stamp > AdapterUnsyncedStamp {
		return fmt.Errorf("%v: there is no such type of time stamps", o.Stamp)
	}
	if len(o.Interfaces) == 0 && o.HookMap == "" {
		return errors.New("no interface to capture on")
	}
	if o.HookMap != "" && o.Promiscuous == PromiscuousOn {
		return errors.New("a hook map has no interface that can be promiscuous")
	}
	if o.HookMap != "" && o.Companions != nil {
		return errors.New("a hook map has no companions: it sees what its owner hands to it, of any interface")
	}
	if o.HookMap != "" && (len(o.Interfaces) > 0 || len(o.Hooks) > 0 || len(o.Targets) > 0 || o.Sink || o.Mode != Auto) {
		return errors.New("a hook map is captured alone: interfaces, their hooks and programs, modes and a sink do not go with it")
	}
	return nil
}

func (o *Options) checkHooks() error {
	exits := slices.Contains(o.Hooks, Exit)
	o.Verdicts = slices.Compact(slices.Sorted(slices.Values(o.Verdicts)))
	switch {
	case len(o.Verdicts) > maxVerdicts:
		return fmt.Errorf("%d verdicts to keep: must be at most %d", len(o.Verdicts), maxVerdicts)
	case slices.Contains(o.Hooks, XDP) || slices.Contains(o.Hooks, TailCall):
		return errors.New("hooks: only Entry and Exit can be asked for")
	case len(o.Verdicts) > 0 && o.HookMap == "" && !exits:
		return xdp.Kind(ErrNeedsExit, "verdicts are known at a program's exit only")
	case o.FilterAtExit && o.HookMap == "" && (!exits || len(o.Hooks) > 1):
		return xdp.Kind(ErrNeedsExit, "a filter at the exit can choose exits only, and exits alone")
	}
	return nil
}

func (o *Options) checkSampling() error {
	if o.MaxRate > maxRate {
		return fmt.Errorf("rate of %d packets per second: must be at most %d", o.MaxRate, uint64(maxRate))
	}
	if o.Adaptive && (o.Sample > 1 || o.SampleVerdicts != nil) {
		return errors.New("an adaptive rate and rates that are given: only one of the two can be had")
	}
	if o.SampleVerdicts == nil {
		return nil
	}
	for v, n := range o.SampleVerdicts {
		if v > Redirect || n == 0 {
			return fmt.Errorf("one of %d packets with the verdict %v: must be one of 1 or more, and a verdict of the kernel", n, v)
		}
	}
	switch {
	case o.Sample > 1:
		return errors.New("one rate for all packets and rates for verdicts: only one of the two can be had")
	case o.HookMap == "" && (!slices.Contains(o.Hooks, Exit) || len(o.Hooks) > 1):
		return xdp.Kind(ErrNeedsExit, "rates for verdicts choose at a program's exit, where they are known, and so exits alone")
	}
	o.SampleVerdicts = maps.Clone(o.SampleVerdicts)
	return nil
}

// oneIn is of how many packets the programs keep one; 0 = not of as many each time.
func (o *Options) oneIn() uint32 {
	if o.SampleVerdicts != nil || o.Adaptive {
		return 0
	}
	return o.Sample
}

// hasWeights tells whether a packet's rate tells how many others it stands for.
func (o *Options) hasWeights() bool { return o.First == 0 && o.bucketRate() == 0 }

// bucketRate is the rate of the token bucket; 0 = there is none. An adaptive session does without,
// because nobody knows what the packets stand for that it lets through.
func (o *Options) bucketRate() uint64 {
	if o.Adaptive {
		return 0
	}
	return o.MaxRate
}

// checkSnapLen fills in the snapshot length, and takes one that is too long as the most.
func (o *Options) checkSnapLen() error {
	// A record that takes more than half of its ring would rarely find room.
	most := min(o.Transport.MaxSnapLen(), o.Buffer/2)
	switch {
	case o.SnapLen < 0:
		return fmt.Errorf("snapshot length %d: must be 1 to %d; 0 asks for the most", o.SnapLen, most)
	case o.SnapLen > most:
		o.notice(fmt.Errorf("snapshot length %d: packets are cut to %d bytes, the most that a record can hold", o.SnapLen, most))
		o.SnapLen = most
	case o.SnapLen == 0:
		o.SnapLen = most
	}
	return nil
}

// checkRings chooses the size of each CPU's ring, and the transport that can be had.
func (o *Options) checkRings() error {
	asked := o.Buffer
	cpus := machine.CPUs()
	if o.Transport == TransportRing || o.Transport == TransportAuto {
		cpus = presentCPUs()
	}
	if err := o.fitBuffer(cpus, machine.AvailableMemory()); err != nil {
		return err
	}
	return o.chooseTransport(asked)
}

// chooseTransport turns TransportAuto and TransportDefault into the transport that can be had.
// asked is the size of a ring that was asked for; 0 = none was.
func (o *Options) chooseTransport(asked int) error {
	if o.Transport == TransportAuto {
		o.Transport = TransportDefault
		if canHaveRings(o) == nil {
			o.Transport = TransportRing
		}
	}
	if o.Transport == TransportDefault || o.Transport == TransportPerf {
		if err := o.checkPerf(asked); err != nil {
			return err
		}
	}
	switch {
	case o.Transport < 0 || o.Transport > TransportAuto:
		return fmt.Errorf("%v: there is no such transport", o.Transport)
	case o.Transport == TransportRing && o.Buffer > maxRingSize:
		return xdp.Kind(ErrBufferTooLarge, "%w", errRingTooLarge(o.Buffer))
	}
	return nil
}

// checkPerf fits perf's rings to the memory that this user may lock. TransportDefault becomes
// TransportPerf or, where there are no such rings, TransportRing.
func (o *Options) checkPerf(asked int) error {
	fits, err := support.FitPerfRings(o.Buffer, MinBuffer)
	switch {
	case err != nil && o.Transport == TransportDefault:
		o.notice(fmt.Errorf("there are no perf rings: %w: packets come by the transport %v", err, TransportRing))
		o.Transport = TransportRing
		return nil
	case err != nil: // the rings are opened before anything is attached, and that error says what to do
	case fits < o.Buffer && asked != 0:
		return xdp.Kind(ErrLockedMemory, "%s: %s fit", tooMuchLocked(o.Buffer), kibibytes(fits))
	case fits < o.Buffer:
		o.notice(fmt.Errorf("%s: they have %s", tooMuchLocked(o.Buffer), kibibytes(fits)))
		o.Buffer = fits
	}
	o.Transport = TransportPerf
	return nil
}

func tooMuchLocked(size int) string {
	return fmt.Sprintf("rings of %s for %d CPUs are more locked memory than this user may have", kibibytes(size), machine.CPUs())
}

// fitBuffer fills in the size of each CPU's ring. All rings together may take a quarter of the
// available memory, in bytes: they keep it for as long as the session lasts.
func (o *Options) fitBuffer(cpus int, available uint64) error {
	asked := o.Buffer
	if asked == 0 {
		asked = DefaultBuffer
	}
	if asked < MinBuffer || asked > MaxBuffer {
		return fmt.Errorf("buffer of %d bytes per CPU: must be %d KiB to %d MiB", asked, MinBuffer>>10, MaxBuffer>>20)
	}
	asked = powerOfTwoPages(asked)
	fits := affordable(asked, cpus, available)
	if fits < asked {
		text := fmt.Sprintf("rings of %s for %d CPUs would take more than a quarter of the available memory, which is %d MiB",
			kibibytes(asked), cpus, available>>20)
		if o.Buffer != 0 {
			return xdp.Kind(ErrBufferTooLarge, "%s: %s fit", text, kibibytes(fits))
		}
		o.notice(fmt.Errorf("%s: they have %s", text, kibibytes(fits)))
	}
	o.Buffer = fits
	return nil
}

// affordable halves the size of a ring until those of all CPUs take at most a quarter of the
// available memory, or the size is MinBuffer.
func affordable(size, cpus int, available uint64) int {
	for size > MinBuffer && uint64(size)*uint64(cpus) > available/4 {
		size /= 2
	}
	return size
}

// kibibytes writes a power of two from 1 KiB on.
func kibibytes(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// notice tells the caller of Open what does not keep the session from running.
func (o *Options) notice(err error) {
	if o.Notice != nil {
		o.Notice(err)
	}
}
