package capture

import "math"

const (
	// calmTicks is for how many looks in a row there must be room before more packets are kept.
	calmTicks = 5
	// maxOneIn bounds the rate of an adaptive session.
	maxOneIn = 1 << 24
)

// A strain is how much is asked of what limits a session. Of each number, 1 is as much as it is to
// do, and at 2 it should keep half as many packets.
type strain struct {
	lasting float64 // of what is overloaded as long as so many packets are kept
	passing float64 // of a queue that has to last until its output writes again
	calm    float64 // by this, more packets are kept where neither of the others is above 1
}

// raise makes the strain at least another one.
func (s *strain) raise(by strain) {
	s.lasting, s.passing, s.calm = max(s.lasting, by.lasting), max(s.passing, by.passing), max(s.calm, by.calm)
}

// A pace is the rate of an adaptive session: one packet of oneIn is kept.
type pace struct {
	oneIn  uint32
	worked uint32  // the last rate that was enough, unless an output stalled
	calm   int     // looks in a row at which there was room
	most   float64 // the largest strain at these
}

func newPace() pace { return pace{oneIn: 1, worked: 1} }

// follow changes the rate after a look. Too much strain is followed at once, and by as much as is
// needed. What was needed for a stall alone is taken back in one step, as soon as the rate from
// before it would do. Of other room, only so much is taken as makes the strain 0.9, and at most
// twice as many packets at a time, because what they take is known only then.
func (p *pace) follow(s strain) {
	back := float64(p.oneIn) / float64(p.worked) // for how many of the packets that are kept now
	switch now := max(s.lasting, s.passing); {
	case now > 1:
		p.oneIn = uint32(min(math.Ceil(float64(p.oneIn)*min(now, 16)), maxOneIn))
		if s.lasting > 1 {
			p.worked = p.oneIn
		}
	case back > 1 && now*back <= 0.9:
		p.oneIn = p.worked
	case s.calm < 0.8 && p.oneIn > 1:
		p.calm, p.most = p.calm+1, max(p.most, s.calm)
		if p.calm < calmTicks {
			return
		}
		p.oneIn = max(uint32(math.Ceil(float64(p.oneIn)*p.most/0.9)), p.oneIn/2, 1)
		p.worked = min(p.worked, p.oneIn)
	}
	p.calm, p.most = 0, 0
}
