package capture

import (
	"errors"
	"fmt"
	"slices"
)

// A Direction is which packets of an interface are captured.
type Direction int

const (
	In    Direction = iota // those that it receives
	Out                    // those that it sends
	InOut                  // both, each with sources of its own
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

// checkDirection refuses what is about received packets where none are captured.
func (o *Options) checkDirection() error {
	if o.Direction < In || o.Direction > InOut {
		return fmt.Errorf("%v: there is no such direction", o.Direction)
	}
	if o.HookMap != "" && o.Direction != In {
		return errors.New("a hook map has received packets alone")
	}
	if o.Direction != Out {
		return nil
	}
	if len(o.Hooks) > 0 || len(o.Targets) > 0 || len(o.Verdicts) > 0 || o.FilterAtExit || o.Mode != Auto || o.Sink ||
		o.Promiscuous == PromiscuousOn {
		return errors.New("where only what is sent is captured, there is no XDP program: its hooks, programs and verdicts, modes, " +
			"a sink and promiscuous mode are for what is received")
	}
	return nil
}
