package capture

import (
	"errors"
	"fmt"
	"slices"

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
		(*Options).checkPlaces, (*Options).checkHooks, (*Options).checkSampling, (*Options).checkSizes,
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
	if len(o.Interfaces) == 0 && o.HookMap == "" {
		return errors.New("no interface to capture on")
	}
	if o.HookMap != "" && o.Promiscuous == PromiscuousOn {
		return errors.New("a hook map has no interface that can be promiscuous")
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
	case o.FilterAtExit && (!exits || len(o.Hooks) > 1):
		return xdp.Kind(ErrNeedsExit, "a filter at the exit can choose exits only, and exits alone")
	}
	return nil
}

func (o *Options) checkSampling() error {
	if o.MaxRate > maxRate {
		return fmt.Errorf("rate of %d packets per second: must be at most %d", o.MaxRate, uint64(maxRate))
	}
	return nil
}

// checkSizes checks the sizes in bytes, and fills in those that were left out.
func (o *Options) checkSizes() error {
	if o.SnapLen == 0 {
		o.SnapLen = MaxSnapLen
	}
	if o.SnapLen < 0 || o.SnapLen > MaxSnapLen {
		return fmt.Errorf("snapshot length %d: must be 1 to %d, what one record of a perf ring holds; 0 asks for the most",
			o.SnapLen, MaxSnapLen)
	}
	if o.Buffer == 0 {
		o.Buffer = DefaultBuffer
	}
	if o.Buffer < MinBuffer || o.Buffer > MaxBuffer {
		return fmt.Errorf("buffer of %d bytes per CPU: must be %d KiB to %d MiB", o.Buffer, MinBuffer>>10, MaxBuffer>>20)
	}
	o.Buffer = perfRingSize(o.Buffer)
	return nil
}
