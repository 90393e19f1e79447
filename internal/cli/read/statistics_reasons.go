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

// maxReadReasons is how many causes are counted one by one: files can have any names.
const maxReadReasons = 1024

// A cause is why and where a packet was thrown away, as the file names it.
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

// reason counts a packet that was thrown away, and returns the reason; "" = it was not, or there is
// none. Causes for which there is no room are one.
func (s *statistics) reason(p *capture.Packet, length, weight uint32) (reason string) {
	var c cause
	if c.Reason, c.Location = s.causeNames(p.Source, p.Facts); c.Reason == "" {
		return ""
	}
	reason = c.Reason
	t := s.reasons[c]
	if t == nil && len(s.reasons) >= maxReadReasons {
		c = cause{Reason: "others"}
		t = s.reasons[c]
	}
	if t == nil {
		t = new(readTally)
		s.reasons[c] = t
	}
	t.add(length, weight)
	return reason
}

// reasonRates are the causes with most packets first. It is nil if there are none.
func (s *statistics) reasonRates() (rates []reasonRate) {
	for c, t := range s.reasons {
		rates = append(rates, reasonRate{c, s.rate(*t)})
	}
	slices.SortFunc(rates, func(a, b reasonRate) int { return cmp.Or(cmp.Compare(b.Packets, a.Packets), a.compare(b.cause)) })
	return rates
}

// The widest cells of the table of reasons: with the numbers, a line has at most 100 columns.
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
