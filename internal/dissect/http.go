package dissect

import (
	"bytes"
	"slices"
	"strings"
)

// httpMethods are the methods that tcpdump recognizes, in any case of letters.
var httpMethods = strings.Fields(`GET PUT COPY HEAD LOCK MOVE POLL POST BCOPY BMOVE MKCOL TRACE LABEL MERGE DELETE SEARCH
	UNLOCK REPORT UPDATE NOTIFY BDELETE CONNECT OPTIONS CHECKIN PROPFIND CHECKOUT CCM_POST SUBSCRIBE PROPPATCH BPROPFIND
	BPROPPATCH UNCHECKOUT MKACTIVITY MKWORKSPACE UNSUBSCRIBE RPC_CONNECT VERSION-CONTROL BASELINE-CONTROL`)

// http appends the first line of a request or an answer of length bytes, and with -v all lines.
func (d *Dissector) http(b []byte, length int) {
	d.proto = "http"
	d.add(": HTTP")
	b = limit(b, length)
	cut := len(b) < length
	word, rest, whole := httpToken(b, cut)
	if whole && word == "" {
		return
	}
	if whole && !slices.Contains(httpMethods, strings.ToUpper(word)) { // then a status comes second
		word, _, whole = httpToken(rest, cut)
		if whole && (len(word) != 3 || strings.Trim(word, "0123456789") != "") {
			return
		}
	}
	if !whole {
		d.truncated()
	}
	if d.o.Verbose == 0 {
		d.textLine(": ", b, length)
		return
	}
	d.addf(", length: %d", length)
	for length > 0 {
		n := d.textLine("\n\t", b, length)
		if n == 0 {
			return
		}
		b, length = b[n:], length-n
	}
}

// maxToken is the length of the longest word that tcpdump accepts.
const maxToken = 127

// httpToken returns the first word of b, and the bytes after the word and its space. The word is
// empty if b does not begin with one. It is not whole if it may continue in truncated bytes.
func httpToken(b []byte, cut bool) (word string, rest []byte, whole bool) {
	for n, c := range b {
		if c >= 0x80 || c == ' ' || c >= '\t' && c <= '\r' {
			return string(b[:n]), bytes.TrimLeft(b[n:], " "), true
		}
		if c < ' ' || c == 0x7f || n == maxToken {
			return "", nil, true
		}
	}
	return string(b), nil, !cut
}

// textLine appends the text in `before`, and then the first line of b. It returns the length of
// that line with its end, or 0 if the line is not text or does not end within b.
func (d *Dissector) textLine(before string, b []byte, length int) int {
	for i, c := range b {
		switch {
		case c == '\n':
			d.add(before + string(b[:i]))
			return i + 1
		case c == '\r' && i+1 == len(b) && i+1 < length:
			d.truncated()
		case c == '\r' && i+1 < len(b) && b[i+1] == '\n':
			d.add(before + string(b[:i]))
			return i + 2
		case c >= 0x7f || c < ' ' && c != '\t':
			return 0
		}
	}
	if len(b) == length { // the line continues in another packet
		d.add(before + string(b))
	}
	d.truncated()
	return 0
}
