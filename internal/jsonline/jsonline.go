// Package jsonline writes packets as JSON, one line each. docs/json.md describes the keys.
package jsonline

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/link"
)

// A Source is what all packets of a source have in common. An empty text omits its key.
type Source struct {
	Interface string
	Namespace string // of the Kubernetes pod that the interface belongs to
	Pod       string // its name
	Direction string // "in" or "out"
	Hook      string
	Program   string    // the traced program
	NoQueue   bool      // the receive queue of its packets is not known
	NoID      bool      // its packets have no id
	Link      link.Type // for link.Unknown lines have only the lengths of packets
}

// A Packet has the values for the line of a packet.
type Packet struct {
	Source  int   // index into the sources
	Time    int64 // nanoseconds since the Unix epoch
	Untimed bool  // it has no time
	Data    []byte
	WireLen int
	Queue   uint32
	ID      uint64
	Verdict string // "" = none
	To      string // the interface through which the verdict sends it; "" = not known
	Dropped uint64 // packets lost before it
	GSOSize int    // 0 = none
	RunTime uint32 // of the traced program, in ns; 0 = not known
	Weight  uint32 // packets that it represents; 0 = not known
	Hash    uint32
	HashBy  string        // who computed the hash; "" = none
	SetBack time.Duration // by how much the wall clock was set back before it

	// Why it was thrown away, and where the kernel did so; "" = it was not, or by a program.
	Reason, Location string
}

// An Encoder belongs to one goroutine.
type Encoder struct {
	sources []Source
	texts   [][]byte // by source: what its lines have after the time
	overall int      // upper bound of a line's length in bytes

	second int64  // seconds since the epoch to which date belongs
	date   []byte // {"time":"2026-11-22T18:00:00.

	to       string // the last Packet.To, which mostly repeats
	quotedTo []byte // the key and that value as JSON

	reason, location string // the same for the last Packet.Reason and Packet.Location
	quotedCause      []byte

	h headers.Headers
}

// maxKeys bounds the bytes of a line besides those of its source's text.
const maxKeys = 1536

// NewEncoder returns an encoder for packets of these sources.
func NewEncoder(sources []Source) *Encoder {
	e := &Encoder{second: -1, overall: maxKeys}
	for _, s := range sources {
		e.Add(s)
	}
	return e
}

// Add adds one more source, and returns its index.
func (e *Encoder) Add(s Source) (index int) {
	index = len(e.sources)
	e.Set(index, s)
	return index
}

// Set makes s the source with an index, in place of another one if there is any.
func (e *Encoder) Set(index int, s Source) {
	text := []byte{'"'} // ends the time
	for _, key := range []struct{ name, value string }{
		{`,"interface":`, s.Interface}, {`,"namespace":`, s.Namespace}, {`,"pod":`, s.Pod},
		{`,"direction":`, s.Direction}, {`,"hook":`, s.Hook}, {`,"program":`, s.Program},
	} {
		if key.value != "" {
			text = appendText(text, key.name, key.value)
		}
	}
	for len(e.sources) <= index {
		e.sources, e.texts = append(e.sources, Source{}), append(e.texts, nil)
	}
	e.sources[index], e.texts[index] = s, text
	e.overall = max(e.overall, len(text)+maxKeys)
}

// appendText appends a key and a text. Bytes that are not UTF-8 become U+FFFD.
func appendText(b []byte, key, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // never: a string can always be written
		quoted = []byte(`""`)
	}
	return append(append(b, key...), escape.JSON(quoted)...)
}

// outlet returns the key and the value of Packet.To.
func (e *Encoder) outlet(to string) []byte {
	if to != e.to {
		e.to, e.quotedTo = to, appendText(e.quotedTo[:0], `,"to":`, to)
	}
	return e.quotedTo
}

// cause returns the keys and the values of Packet.Reason and Packet.Location.
func (e *Encoder) cause(reason, location string) []byte {
	if reason != e.reason || location != e.location {
		e.reason, e.location = reason, location
		e.quotedCause = appendText(e.quotedCause[:0], `,"reason":`, reason)
		if location != "" {
			e.quotedCause = appendText(e.quotedCause, `,"location":`, location)
		}
	}
	return e.quotedCause
}

// MaxLine is an upper bound of the length of a line, in bytes.
func (e *Encoder) MaxLine() int { return e.overall }

// Append appends a packet's line and a newline. It allocates nothing if dst has room for MaxLine
// more bytes.
func (e *Encoder) Append(dst []byte, p *Packet) []byte {
	source, text := &e.sources[p.Source], e.texts[p.Source]
	b := dst
	if p.Untimed {
		b, text = append(b, `{"time":null`...), text[1:] // without the quotation mark that ends a time
	} else {
		b = e.appendTime(b, p.Time)
	}
	b = append(b, text...)
	if p.Verdict != "" {
		b = append(append(append(b, `,"verdict":"`...), p.Verdict...), '"')
	}
	if !source.NoQueue {
		b = appendNumber(b, `,"queue":`, uint64(p.Queue))
	}
	if !source.NoID {
		b = appendNumber(b, `,"id":`, p.ID)
	}
	b = appendNumber(b, `,"lost_before":`, p.Dropped)
	b = appendNumber(b, `,"length":`, uint64(p.WireLen))
	b = appendNumber(b, `,"captured":`, uint64(len(p.Data)))
	if p.Weight > 1 {
		b = appendNumber(b, `,"weight":`, uint64(p.Weight))
	}
	if p.To != "" {
		b = append(b, e.outlet(p.To)...)
	}
	if p.Reason != "" {
		b = append(b, e.cause(p.Reason, p.Location)...)
	}
	if p.GSOSize != 0 {
		b = appendNumber(b, `,"gso_size":`, uint64(p.GSOSize))
	}
	if p.RunTime != 0 {
		b = appendNumber(b, `,"run_time_ns":`, uint64(p.RunTime))
	}
	if p.HashBy != "" {
		b = append(b, `,"hash":"0x`...)
		for shift := 28; shift >= 0; shift -= 4 {
			b = append(b, digits[p.Hash>>shift&0xf])
		}
		b = append(append(append(b, `","hash_by":"`...), p.HashBy...), '"')
	}
	if p.SetBack != 0 {
		b = appendNumber(b, `,"clock_set_back_ns":`, uint64(p.SetBack))
	}
	if source.Link != link.Unknown {
		b = e.appendHeaders(b, source.Link, p.Data)
	}
	return append(b, '}', '\n')
}

func (e *Encoder) appendHeaders(b []byte, typ link.Type, frame []byte) []byte {
	h := &e.h
	if index, ok := typ.Index(frame); ok {
		b = appendNumber(b, `,"ifindex":`, uint64(index))
	}
	destination, source := typ.Addresses(frame)
	if source != nil {
		b = appendMAC(b, `,"source_mac":"`, source)
	}
	if destination != nil {
		b = appendMAC(b, `,"destination_mac":"`, destination)
	}
	whole := headers.ParseLink(typ, frame, h)
	if h.Tags > 0 {
		b = append(b, `,"vlans":[`...)
		for i, id := range h.VLANs[:h.Tags] {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, uint64(id), 10)
		}
		b = append(b, ']')
	}
	switch {
	case !whole:
		return b
	case h.Family == 0:
		return append(headers.AppendEtherType(append(b, `,"family":"other","protocol":"`...), h.EtherType), '"')
	case h.Family == 4:
		b = append(b, `,"family":"ipv4","protocol":"`...)
	default:
		b = append(b, `,"family":"ipv6","protocol":"`...)
	}
	b = append(b, headers.ProtocolName(h.Protocol)...)
	from, to := h.Ports()
	b = h.Source.AppendTo(append(b, `","source":"`...))
	b = append(b, '"')
	if from != 0 {
		b = appendNumber(b, `,"source_port":`, uint64(from))
	}
	b = h.Destination.AppendTo(append(b, `,"destination":"`...))
	b = append(b, '"')
	if to != 0 {
		b = appendNumber(b, `,"destination_port":`, uint64(to))
	}
	if flags, ok := h.TCPFlags(); ok {
		b = append(append(b, `,"tcp_flags":`...), flagLists[flags]...)
	}
	before := len(b)
	const key = `,"community_id":"`
	b = append(b, key...)
	if b = h.AppendCommunityID(b); len(b) == before+len(key) {
		return b[:before]
	}
	return append(b, '"')
}

// timeLayout is RFC 3339 up to the fraction of the second.
const timeLayout = `{"time":"2006-01-02T15:04:05.`

// appendTime begins a line with the time. Many packets come in a second, so it caches the text
// before the fraction.
func (e *Encoder) appendTime(b []byte, ns int64) []byte {
	second, fraction := ns/1e9, ns%1e9
	if fraction < 0 {
		second, fraction = second-1, fraction+1e9
	}
	if second != e.second || e.date == nil {
		e.second = second
		e.date = time.Unix(second, 0).UTC().AppendFormat(e.date[:0], timeLayout)
	}
	b = append(b, e.date...)
	for unit := int64(1e8); unit > 0; unit /= 10 {
		b = append(b, byte('0'+fraction/unit%10))
	}
	return append(b, 'Z')
}

func appendNumber(b []byte, key string, n uint64) []byte {
	return strconv.AppendUint(append(b, key...), n, 10)
}

const digits = "0123456789abcdef"

// appendMAC appends a key, which ends with the quote, and a MAC address.
func appendMAC(b []byte, key string, mac []byte) []byte {
	b = append(b, key...)
	for i := range 6 {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, digits[mac[i]>>4], digits[mac[i]&0xf])
	}
	return append(b, '"')
}

// flagLists has a list of names for each octet of TCP flags.
var flagLists = func() (lists [256]string) {
	names := [8]string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"}
	for flags := range lists {
		set := []string{}
		for bit, name := range names {
			if flags>>bit&1 == 1 {
				set = append(set, name)
			}
		}
		list, _ := json.Marshal(set)
		lists[flags] = string(list)
	}
	return lists
}()
