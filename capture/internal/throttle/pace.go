package throttle

import "math"

const (
	// calmTicks is how many readings in a row must show room before more packets are kept.
	calmTicks = 5
	// maxOneIn is the largest oneIn of an adaptive session.
	maxOneIn = 1 << 24
)

// A strain is the load on the bottleneck of a session. For each number, 1 is the intended load, and
// 2 means that the session should keep half as many packets.
type strain struct {
	lasting float64 // on a part that stays overloaded while this many packets are kept
	passing float64 // on a queue that must not fill up until its stalled output writes again
	calm    float64 // decides how many more packets to keep if neither of the others is above 1
}

// raise sets each number to the maximum of both strains.
func (s *strain) raise(by strain) {
	s.lasting, s.passing, s.calm = max(s.lasting, by.lasting), max(s.passing, by.passing), max(s.calm, by.calm)
}

// A pace is the rate of an adaptive session: one packet of oneIn is kept.
type pace struct {
	oneIn  uint32
	enough uint32  // the last oneIn at which the session kept up, unless an output stalled
	calm   int     // readings in a row that showed room
	most   float64 // the largest strain.calm of these readings
}

// update changes oneIn after a reading. If the strain is too high, fewer packets are kept at once,
// as few as needed. After a stall, the former oneIn is restored in one step, as soon as the strain
// allows it. Otherwise more packets are kept step by step, up to a strain of 0.9 and at most twice
// as many at a time, because the cost of more packets is measured only while they are kept.
func (p *pace) update(s strain) {
	back := float64(p.oneIn) / float64(p.enough) // the rate from before the stall keeps this many times more packets
	switch now := max(s.lasting, s.passing); {
	case now > 1:
		p.oneIn = uint32(min(math.Ceil(float64(p.oneIn)*min(now, 16)), maxOneIn))
		if s.lasting > 1 {
			p.enough = p.oneIn
		}
	case back > 1 && now*back <= 0.9:
		p.oneIn = p.enough
	case s.calm < 0.8 && p.oneIn > 1:
		p.calm, p.most = p.calm+1, max(p.most, s.calm)
		if p.calm < calmTicks {
			return
		}
		p.oneIn = max(uint32(math.Ceil(float64(p.oneIn)*p.most/0.9)), p.oneIn/2, 1)
		p.enough = min(p.enough, p.oneIn)
	}
	p.calm, p.most = 0, 0
}
