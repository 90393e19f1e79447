package lines

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/message"
)

// A JSONEncoder makes a line of JSON of each packet of an input, or a row of CSV with the same
// values. docs/json.md describes the keys. It belongs to one goroutine.
type JSONEncoder struct {
	d       *capture.Description
	sources *capture.SourceList
	keys    []sourceKeys // by source
	longest int          // maximum length in bytes of a source's keys

	more    func(line []byte, p *capture.Packet) []byte // nil = no further keys
	next    []byte                                      // the result of more for the next packet, from Room until Append
	hasNext bool

	second int64  // seconds since the epoch to which date belongs
	date   []byte // {"time":"2026-11-22T18:00:00.

	to       string // the last packet's outlet, which mostly repeats
	quotedTo []byte // the key and that value as JSON

	reason, location, device string // the same for the last packet's drop
	quotedCause              []byte

	h    headers.Headers
	line []byte // the packet's line while AppendRow makes a row of it
}

// sourceKeys are the keys that all packets of a source have in common, as JSON: the keys before
// direction and hook, which may differ in a capture file, and the keys after them.
type sourceKeys struct {
	before, after []byte
	link          headers.Link // for UnknownLink lines have only the lengths of packets
}

// maxKeys is the maximum length in bytes of a line besides sourceKeys and the keys of more.
const maxKeys = 1536

// NewJSONEncoder returns an encoder for the packets of the sources in d. more, if not nil, appends
// other keys to a packet's line, each as `,"key":value`. It is called once for each packet.
func NewJSONEncoder(d *capture.Description, more func(line []byte, p *capture.Packet) []byte) *JSONEncoder {
	e := &JSONEncoder{d: d, sources: capture.NewSourceList(d), more: more, second: -1}
	for i := range d.Sources {
		e.add(i)
	}
	return e
}

// AddSources adds new sources. Call it before appending packets.
func (e *JSONEncoder) AddSources() {
	for _, source := range e.sources.Update() {
		e.add(source)
	}
}

func (e *JSONEncoder) add(source int) {
	s := e.sources.Of(source)
	keys := sourceKeys{link: headers.LinkToDecode(s.LinkType())}
	for _, key := range []struct{ name, value string }{
		{`,"interface":`, s.Name}, {`,"namespace":`, s.Pod.Namespace}, {`,"pod":`, s.Pod.Name},
	} {
		keys.before = appendText(keys.before, key.name, key.value)
	}
	keys.after = appendText(nil, `,"program":`, s.Target.Name)
	for len(e.keys) <= source {
		e.keys = append(e.keys, sourceKeys{})
	}
	e.keys[source] = keys
	e.longest = max(e.longest, len(keys.before)+len(keys.after))
}

// appendText appends a key and a text, unless the text is empty. Bytes that are not UTF-8 become
// U+FFFD.
func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	quoted, err := json.Marshal(text)
	if err != nil { // never: a string can always be written
		quoted = []byte(`""`)
	}
	return append(append(b, key...), message.EscapeJSON(quoted)...)
}

// outlet returns the key and the name of an outlet.
func (e *JSONEncoder) outlet(to string) []byte {
	if to != e.to {
		e.to, e.quotedTo = to, appendText(e.quotedTo[:0], `,"to":`, to)
	}
	return e.quotedTo
}

// cause returns the keys and the names of a reason, a location and a device.
func (e *JSONEncoder) cause(reason, location, device string) []byte {
	if reason != e.reason || location != e.location || device != e.device {
		e.reason, e.location, e.device = reason, location, device
		e.quotedCause = appendText(e.quotedCause[:0], `,"reason":`, reason)
		e.quotedCause = appendText(e.quotedCause, `,"location":`, location)
		e.quotedCause = appendText(e.quotedCause, `,"device":`, device)
	}
	return e.quotedCause
}

// Room returns an upper bound of the length of the next packet's line, in bytes.
func (e *JSONEncoder) Room(p *capture.Packet) int {
	if e.more != nil && !e.hasNext {
		e.next, e.hasNext = e.more(e.next[:0], p), true
	}
	return e.longest + maxKeys + len(e.next)
}

// Append appends a packet's line and a newline. It allocates no memory if dst has Room.
func (e *JSONEncoder) Append(b []byte, p *capture.Packet) []byte {
	e.Room(p)
	s, keys := e.sources.Of(int(p.Source)), &e.keys[p.Source]
	if p.HasTime() {
		b = append(e.appendTime(b, p.Stamp()), '"')
	} else {
		b = append(b, `{"time":null`...)
	}
	queue, hasQueue := s.QueueOf(p)
	verdict, kind, hasVerdict := s.ReturnOf(p)
	b = append(b, keys.before...)
	if direction, known := s.DirectionOf(p); known {
		b = appendWord(b, `,"direction":"`, direction.String())
	}
	if hook := hookOf(s, hasQueue, hasVerdict); hook != capture.UnknownHook {
		b = appendWord(b, `,"hook":"`, hook.String())
	}
	b = append(b, keys.after...)
	isVerdict := hasVerdict && kind != capture.PlainNumber
	if isVerdict {
		b = appendWord(b, `,"verdict":"`, kind.NameOf(verdict))
	}
	if hasQueue {
		b = appendNumber(b, `,"queue":`, uint64(queue))
	}
	if id, known := s.IDOf(p); known {
		b = appendNumber(b, `,"id":`, id)
	}
	b = appendNumber(b, `,"lost_before":`, p.Dropped)
	b = appendNumber(b, `,"length":`, uint64(p.WireLen))
	b = appendNumber(b, `,"captured":`, uint64(len(p.Data)))
	if p.Weight > 1 {
		b = appendNumber(b, `,"weight":`, uint64(p.Weight))
	}
	if p.To != 0 && p.Device() == 0 && e.d.OutletName != nil {
		b = append(b, e.outlet(e.d.OutletName(p.To))...)
	}
	if reason, location := e.d.CauseNames(p.Source, p.Facts); reason != "" {
		device := ""
		if p.Device() != 0 && e.d.OutletName != nil {
			device = e.d.OutletName(p.Device())
		}
		b = append(b, e.cause(reason, location, device)...)
	}
	if p.GSOSize != 0 {
		b = appendNumber(b, `,"gso_size":`, uint64(p.GSOSize))
	}
	if p.RunTime != 0 {
		b = appendNumber(b, `,"run_time_ns":`, uint64(p.RunTime))
	}
	if p.HashKind != capture.NoHash {
		b = append(b, `,"hash":"0x`...)
		for shift := 28; shift >= 0; shift -= 4 {
			b = append(b, digits[p.Hash>>shift&0xf])
		}
		b = appendWord(b, `","hash_by":"`, p.HashKind.String())
	}
	if p.ClockSetBack != 0 {
		b = appendNumber(b, `,"clock_set_back_ns":`, uint64(p.ClockSetBack))
	}
	if keys.link != headers.UnknownLink {
		b = e.appendHeaders(b, keys.link, p.Data)
	}
	if hasVerdict && !isVerdict {
		b = strconv.AppendInt(append(b, `,"returned":`...), int64(int32(verdict)), 10)
	}
	b = append(b, e.next...)
	e.next, e.hasNext = e.next[:0], false
	return append(b, '}', '\n')
}

// hookOf returns the hook of a packet. If a capture file does not name it, it follows from the
// receive queue, which is known only at two hooks.
func hookOf(s *capture.Source, hasQueue, hasVerdict bool) capture.Hook {
	switch {
	case s.Hook != capture.UnknownHook || !hasQueue:
		return s.Hook
	case hasVerdict:
		return capture.TailCall
	}
	return capture.XDP
}

// appendWord appends a key, which ends with the quote, and a word that needs no escapes.
func appendWord(b []byte, key, word string) []byte {
	return append(append(append(b, key...), word...), '"')
}

func (e *JSONEncoder) appendHeaders(b []byte, typ headers.Link, frame []byte) []byte {
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
	whole := headers.Parse(typ, frame, h)
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

// appendTime begins a line with the time. Many packets arrive in a second, so it caches the text
// before the fraction.
func (e *JSONEncoder) appendTime(b []byte, ns int64) []byte {
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
