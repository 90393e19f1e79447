package read

import (
	"cmp"
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// maxReadReasons bounds the causes that are counted one by one, because files can have any names.
const maxReadReasons = 1024

// A cause has the names in a file of why and where a packet was thrown away.
type cause struct {
	Reason   string `json:"reason"`
	Location string `json:"location,omitempty"`
}

func (c cause) compare(other cause) int {
	return cmp.Or(cmp.Compare(c.Reason, other.Reason), cmp.Compare(c.Location, other.Location))
}

type reasonRate struct {
	cause
	readRate
}

// addReason counts a packet by the cause if it was thrown away, and returns the reason; "" = it was
// not thrown away, or the file has no reason. Causes beyond maxReadReasons are one: others.
func (s *statistics) addReason(p *capture.Packet, length, weight uint32) (reason string) {
	reason, location := s.causeNames(p.Source, p.Facts)
	if reason == "" {
		return ""
	}
	c := cause{reason, location}
	if s.reasons[c] == nil && len(s.reasons) >= maxReadReasons {
		c = cause{Reason: "others"}
	}
	tallyOf(s.reasons, c).add(length, weight)
	return reason
}

// reasonRates are the rates of the causes, ordered by packets. It is nil if there are none.
func (s *statistics) reasonRates() (rates []reasonRate) {
	for c, t := range s.reasons {
		rates = append(rates, reasonRate{c, s.rate(*t)})
	}
	slices.SortFunc(rates, func(a, b reasonRate) int { return cmp.Or(cmp.Compare(b.Packets, a.Packets), a.compare(b.cause)) })
	return rates
}

// The most columns of a reason and a location: with the numbers, a line has at most 100.
const (
	reasonWidth   = 24
	locationWidth = 28
)

func (r *Report) reasonTable(w io.Writer) {
	if r.Reasons == nil {
		return
	}
	t := counters.NewRateTable("REASON", "WHERE")
	for _, c := range r.Reasons {
		t.Add(counters.RateCells(c.Rate, frame.Shorten(message.Escape(c.Reason), reasonWidth), frame.Shorten(message.Escape(c.Location), locationWidth))...)
	}
	t.Write(w)
}
