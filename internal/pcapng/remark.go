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

// The words of remarks. Each remark is a comment of its own. The value comes after the first part.
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

// append appends a comment for each remark.
func (r *Remarks) append(b []byte, p *Packet) []byte {
	if r.SetBack != 0 {
		b = appendComment(b, func(b []byte) []byte {
			return append(append(append(b, setBackWord...), r.SetBack.String()...), setBackEnd...)
		})
	}
	if r.Weight > 1 {
		b = appendComment(b, func(b []byte) []byte { return strconv.AppendUint(append(b, weightWord...), uint64(r.Weight), 10) })
	}
	if r.TCName != "" {
		b = appendComment(b, func(b []byte) []byte { return append(append(b, tcWord...), r.TCName...) })
	}
	if r.IsReturned {
		b = appendComment(b, func(b []byte) []byte {
			return strconv.AppendInt(append(b, returnedWord...), int64(int32(p.Verdict)), 10)
		})
	}
	if word := outletWord(p.Verdict); r.Outlet != nil && word != "" {
		b = appendComment(b, func(b []byte) []byte { return append(append(b, word...), r.Outlet...) })
	}
	if r.GSOSize != 0 {
		b = appendComment(b, func(b []byte) []byte { return strconv.AppendUint(append(b, gsoWord...), uint64(r.GSOSize), 10) })
	}
	if r.RunTime != 0 {
		b = appendComment(b, func(b []byte) []byte {
			return append(strconv.AppendUint(append(b, runWord...), uint64(r.RunTime), 10), runEnd...)
		})
	}
	if r.Reason != nil && len(r.Location) == 0 {
		b = appendComment(b, func(b []byte) []byte { return append(append(b, reasonWord...), r.Reason...) })
	} else if r.Reason != nil {
		b = appendComment(b, func(b []byte) []byte {
			return append(append(append(append(b, causeWord...), r.Reason...), locationWord...), r.Location...)
		})
	}
	if r.Device != nil {
		b = appendComment(b, func(b []byte) []byte { return append(append(b, deviceWord...), r.Device...) })
	}
	return b
}

// isEmpty reports whether there is no remark, which is so for most packets.
func (r *Remarks) isEmpty() bool {
	return r.SetBack == 0 && r.Weight <= 1 && r.Outlet == nil && r.GSOSize|r.RunTime == 0 && r.Reason == nil && r.Device == nil && r.TCName == "" && !r.IsReturned
}

// appendComment appends an opt_comment with a short text that is never truncated.
func appendComment(b []byte, text func([]byte) []byte) []byte {
	at := len(b)
	b = text(le.AppendUint32(b, optComment))
	n := len(b) - at - 4
	le.PutUint16(b[at+2:], uint16(n))
	return pad(b, n)
}

// parse reads the remark in a comment, unless an earlier comment had the same remark: comments that
// people add to a packet come after the remarks. For an outlet it returns the verdict that sends
// the packet there. Outlet, Reason, Location and Device then refer to the comment's bytes.
func (r *Remarks) parse(comment []byte) (verdict uint32) {
	if number, ok := bytes.CutPrefix(comment, []byte(weightWord)); ok {
		if n := parseUint(number); n > 0 && r.Weight == 0 {
			r.Weight = n
		}
	} else if number, ok := bytes.CutPrefix(comment, []byte(gsoWord)); ok && r.GSOSize == 0 {
		r.GSOSize = parseUint(number)
	} else if text, ok := bytes.CutPrefix(comment, []byte(runWord)); ok && r.RunTime == 0 {
		if number, ok := bytes.CutSuffix(text, []byte(runEnd)); ok {
			r.RunTime = parseUint(number)
		}
	} else if text, ok := bytes.CutPrefix(comment, []byte(setBackWord)); ok && r.SetBack == 0 {
		if text, ok = bytes.CutSuffix(text, []byte(setBackEnd)); ok {
			back, _ := time.ParseDuration(string(text))
			r.SetBack = max(back, 0)
		}
	}
	if text, ok := bytes.CutPrefix(comment, []byte(causeWord)); ok && r.Reason == nil {
		if at := bytes.LastIndex(text, []byte(locationWord)); at > 0 && isName(text[:at]) && isName(text[at+len(locationWord):]) {
			r.Reason, r.Location = text[:at], text[at+len(locationWord):]
		}
	} else if text, ok := bytes.CutPrefix(comment, []byte(reasonWord)); ok && r.Reason == nil && isName(text) {
		r.Reason = text
	} else if text, ok := bytes.CutPrefix(comment, []byte(deviceWord)); ok && r.Device == nil {
		r.Device = text
	}
	for v, word := range outletWords {
		if to, ok := bytes.CutPrefix(comment, []byte(word)); ok && word != "" && r.Outlet == nil {
			r.Outlet = to
			return uint32(v)
		}
	}
	return 0
}

// parseReturned reads the remark of a function's number.
func parseReturned(comment []byte) (number int32, ok bool) {
	text, ok := bytes.CutPrefix(comment, []byte(returnedWord))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	return int32(n), err == nil
}

// isName reports whether a text can be a reason or a location.
func isName(text []byte) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !bytes.Contains([]byte("_.$ "), []byte{c}) {
			return false
		}
	}
	return len(text) > 0 && len(text) <= maxCause
}

// parseUint parses a 32-bit number; 0 = invalid.
func parseUint(digits []byte) uint32 {
	n := uint64(0)
	for _, d := range digits {
		if d < '0' || d > '9' || n > 1<<32 {
			return 0
		}
		n = 10*n + uint64(d-'0')
	}
	if n > 1<<32-1 {
		return 0
	}
	return uint32(n)
}
