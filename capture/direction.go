package capture

import (
	"errors"
	"fmt"
	"slices"
)

// A Direction says which packets of an interface are captured.
type Direction int

const (
	In    Direction = iota // those that it receives
	Out                    // those that it sends
	InOut                  // both, as separate sources
)

var directionNames = [...]string{"in", "out", "inout"}

func (d Direction) String() string {
	if d < 0 || int(d) >= len(directionNames) {
		return fmt.Sprintf("direction %d", int(d))
	}
	return directionNames[d]
}

// ParseDirection reads a direction's name: "in", "out" or "inout".
func ParseDirection(s string) (Direction, error) {
	if i := slices.Index(directionNames[:], s); i >= 0 {
		return Direction(i), nil
	}
	return 0, fmt.Errorf("direction %q: must be in, out or inout", s)
}

// checkDirection rejects options about received packets if only sent ones are captured.
func (o *Options) checkDirection() error {
	if o.Direction < In || o.Direction > InOut {
		return fmt.Errorf("%v does not exist: must be In, Out or InOut", o.Direction)
	}
	if o.HookMap != "" && o.Direction != In {
		return errors.New("a hook map has only received packets")
	}
	if o.Direction != Out {
		return nil
	}
	if len(o.Hooks) > 0 || len(o.Targets) > 0 || len(o.Verdicts) > 0 || o.SlowerThan != 0 || o.FilterAtExit || o.Mode != Auto || o.Sink ||
		o.Promiscuous == PromiscuousOn {
		return errors.New("sent packets pass no XDP program: hooks, programs, verdicts, run times, modes, " +
			"a sink and promiscuous mode are for received packets")
	}
	return nil
}
