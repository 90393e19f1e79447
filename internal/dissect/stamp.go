package dissect

import (
	"strconv"
	"time"
)

// TimeFormat is the format of a line's time: by the number of -t flags, as in tcpdump.
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
	unit      time.Duration // to which times are truncated
	layout    string        // of package time
	reference time.Time     // the time that differences count from
}

func newStamps(o *Options) stamps {
	s := stamps{format: o.Time, unit: time.Microsecond}
	fraction := ".000000 "
	if o.Nanoseconds {
		s.unit, fraction = time.Nanosecond, ".000000000 "
	}
	switch o.Time {
	case UnixTime:
		s.layout = fraction
	case LocalDate:
		s.layout = time.DateTime + fraction
	default:
		s.layout = time.TimeOnly + fraction
	}
	return s
}

// append appends t and a space. For a packet without a time it appends dashes instead of digits.
func (s *stamps) append(b []byte, t time.Time, known bool) []byte {
	if !known {
		return s.appendNone(b)
	}
	switch s.format {
	case NoTime:
		return b
	case UnixTime:
		b = strconv.AppendInt(b, t.Unix(), 10)
		return t.AppendFormat(b, s.layout)
	case LocalDate:
		return t.Local().AppendFormat(b, s.layout)
	case SincePrevious, SinceFirst:
		if s.reference.IsZero() {
			s.reference = t
		}
		// Each time is truncated to its unit, as when it is shown alone.
		since, sign := t.Truncate(s.unit).Sub(s.reference.Truncate(s.unit)), byte(' ')
		if since < 0 {
			since, sign = -since, '-'
		}
		if s.format == SincePrevious {
			s.reference = t
		}
		return time.Unix(0, 0).UTC().Add(since).AppendFormat(append(b, sign), s.layout)
	}
	return t.Local().AppendFormat(b, s.layout)
}

func (s *stamps) appendNone(b []byte) []byte {
	layout := s.layout
	switch s.format {
	case NoTime:
		return b
	case UnixTime:
		layout = "0000000000" + layout
	case SincePrevious, SinceFirst:
		layout = " " + layout
	}
	for _, c := range []byte(layout) {
		if c >= '0' && c <= '9' {
			c = '-'
		}
		b = append(b, c)
	}
	return b
}
