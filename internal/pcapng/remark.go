package pcapng

import (
	"bytes"
	"strconv"
	"time"
)

// Remarks are facts about a packet for which the format has no option. They are written as
// comments, in words that readers show and that ParsePacket parses.
type Remarks struct {
	SetBack time.Duration // of the wall clock, before the packet; 0 = omitted
	Weight  uint32        // packets that this one represents; 0 = unknown; 0 and 1 are omitted
	Outlet  []byte        // interface through which Verdict, tx or redirect, sends it; nil = omitted
	GSOSize uint32        // maximum bytes of data in a segment; 0 = omitted
	RunTime uint32        // run time in ns of the program that decided about it; 0 = omitted

	// Reason is the network stack's reason for dropping the packet, and Location the kernel's
	// function that did so, at most maxCause bytes long; a nil Reason = omitted. Without a
	// Location, Reason is that of the program that dropped the packet.
	Reason, Location []byte

	Device []byte // the interface that has lost it; nil = omitted

	TCName     string // the name of a Verdict at tc; "" = omitted
	IsReturned bool   // Verdict is the number that a function has returned
}

// The words of remarks. A remark is a comment: the word, the value, and for some another word.
const (
	setBackWord, setBackEnd = "the wall clock was set back by ", " before this packet"
	weightWord              = "weight "
	gsoWord                 = "GSO size "
	runWord, runEnd         = "the program ran ", " ns"
	causeWord, locationWord = "thrown away: ", " in "
	deviceWord              = "thrown away at "
	reasonWord              = "the program's reason: "
	tcWord                  = "tc verdict "
	returnedWord            = "the function returned "
)

// maxCause is the maximum length in bytes that parse accepts for a reason or a location.
const maxCause = 160

// outletWords come before an outlet. The index is the verdict; "" = a verdict without an outlet.
var outletWords = [...]string{3: "tx to ", 4: "redirect to "}

// outletWord returns the word of a verdict.
func outletWord(verdict uint32) string {
	if uint64(verdict) < uint64(len(outletWords)) {
		return outletWords[verdict]
	}
	return ""
}

func (r *Remarks) append(b []byte, p *Packet) []byte {
	var digits [20]byte // of the longest 64-bit number
	if r.SetBack != 0 {
		b = appendRemark(b, setBackWord, r.SetBack.String(), setBackEnd)
	}
	if r.Weight > 1 {
		b = appendRemark(b, weightWord, strconv.AppendUint(digits[:0], uint64(r.Weight), 10), "")
	}
	if r.TCName != "" {
		b = appendRemark(b, tcWord, r.TCName, "")
	}
	if r.IsReturned {
		b = appendRemark(b, returnedWord, strconv.AppendInt(digits[:0], int64(int32(p.Verdict)), 10), "")
	}
	if word := outletWord(p.Verdict); r.Outlet != nil && word != "" {
		b = appendRemark(b, word, r.Outlet, "")
	}
	if r.GSOSize != 0 {
		b = appendRemark(b, gsoWord, strconv.AppendUint(digits[:0], uint64(r.GSOSize), 10), "")
	}
	if r.RunTime != 0 {
		b = appendRemark(b, runWord, strconv.AppendUint(digits[:0], uint64(r.RunTime), 10), runEnd)
	}
	switch {
	case r.Reason == nil:
	case len(r.Location) == 0:
		b = appendRemark(b, reasonWord, r.Reason, "")
	default:
		b = appendRemark(b, causeWord, r.Reason, locationWord, r.Location...)
	}
	if r.Device != nil {
		b = appendRemark(b, deviceWord, r.Device, "")
	}
	return b
}

// isEmpty reports whether there is no remark, which is so for most packets.
func (r *Remarks) isEmpty() bool {
	return r.SetBack == 0 && r.Weight <= 1 && r.Outlet == nil && r.GSOSize|r.RunTime == 0 && r.Reason == nil && r.Device == nil && r.TCName == "" && !r.IsReturned
}

// appendRemark appends an opt_comment of these four parts. They are short, so it never truncates
// them.
func appendRemark[T string | []byte](b []byte, word string, value T, end string, last ...byte) []byte {
	n := len(word) + len(value) + len(end) + len(last)
	b = le.AppendUint32(b, optComment|uint32(n)<<16)
	b = append(append(append(append(b, word...), value...), end...), last...)
	return pad(b, n)
}

// parse reads the remark in a comment, unless an earlier comment had the same remark: comments that
// people add to a packet come after the remarks. For an outlet it returns the verdict that sends
// the packet there. Outlet, Reason, Location and Device then refer to the comment's bytes.
func (r *Remarks) parse(comment []byte) (verdict uint32) {
	if number, ok := between(comment, weightWord, ""); ok && r.Weight == 0 {
		r.Weight = parseUint(number)
	}
	if number, ok := between(comment, gsoWord, ""); ok && r.GSOSize == 0 {
		r.GSOSize = parseUint(number)
	}
	if number, ok := between(comment, runWord, runEnd); ok && r.RunTime == 0 {
		r.RunTime = parseUint(number)
	}
	if text, ok := between(comment, setBackWord, setBackEnd); ok && r.SetBack == 0 {
		back, _ := time.ParseDuration(string(text))
		r.SetBack = max(back, 0)
	}
	if text, ok := between(comment, causeWord, ""); ok && r.Reason == nil {
		if at := bytes.LastIndex(text, []byte(locationWord)); at > 0 && isName(text[:at]) && isName(text[at+len(locationWord):]) {
			r.Reason, r.Location = text[:at], text[at+len(locationWord):]
		}
	}
	if text, ok := between(comment, reasonWord, ""); ok && r.Reason == nil && isName(text) {
		r.Reason = text
	}
	if text, ok := between(comment, deviceWord, ""); ok && r.Device == nil {
		r.Device = text
	}
	for v, word := range outletWords {
		if to, ok := between(comment, word, ""); ok && word != "" && r.Outlet == nil {
			r.Outlet = to
			return uint32(v)
		}
	}
	return 0
}

// between returns the part of a comment between a word at its beginning and one at its end.
func between(comment []byte, word, end string) (value []byte, ok bool) {
	if value, ok = bytes.CutPrefix(comment, []byte(word)); ok {
		value, ok = bytes.CutSuffix(value, []byte(end))
	}
	return value, ok
}

// parseReturned reads the remark about the number that a function has returned.
func parseReturned(comment []byte) (number int32, ok bool) {
	text, ok := between(comment, returnedWord, "")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	return int32(n), err == nil
}

// isName reports whether a text can be a reason or a location.
func isName(text []byte) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$ "
	return len(text) > 0 && len(text) <= maxCause && len(bytes.Trim(text, characters)) == 0
}

// parseUint parses a 32-bit number; 0 = invalid.
func parseUint(digits []byte) uint32 {
	n, err := strconv.ParseUint(string(digits), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}
