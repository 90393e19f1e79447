package dissect

import (
	"strconv"
	"time"
)

// TimeFormat is how a line shows the packet's time: by the number of -t flags, as in tcpdump.
type TimeFormat int

const (
	LocalTime     TimeFormat = iota // 15:04:05.000000
	NoTime                          // -t
	UnixTime                        // -tt: seconds since the Unix epoch
	SincePrevious                   // -ttt: since the packet of the line before
	LocalDate                       // -tttt: the date before the time
	SinceFirst                      // -ttttt: since the packet of the first line
)

// stamps appends the times of consecutive packets.
type stamps struct {
	format    TimeFormat
	reference time.Time // the time that differences count from
}

// append appends t and a space.
func (s *stamps) append(b []byte, t time.Time) []byte {
	switch s.format {
	case NoTime:
		return b
	case UnixTime:
		b = strconv.AppendInt(b, t.Unix(), 10)
		return t.AppendFormat(b, ".000000 ")
	case LocalDate:
		return t.Local().AppendFormat(b, "2006-01-02 15:04:05.000000 ")
	case SincePrevious, SinceFirst:
		if s.reference.IsZero() {
			s.reference = t
		}
		// Each time is cut to microseconds, as when it is shown alone.
		since, sign := t.Truncate(time.Microsecond).Sub(s.reference.Truncate(time.Microsecond)), byte(' ')
		if since < 0 {
			since, sign = -since, '-'
		}
		if s.format == SincePrevious {
			s.reference = t
		}
		return time.Unix(0, 0).UTC().Add(since).AppendFormat(append(b, sign), "15:04:05.000000 ")
	}
	return t.Local().AppendFormat(b, "15:04:05.000000 ")
}
