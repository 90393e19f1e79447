package lines

import (
	"bytes"
	"strconv"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/message"
)

// Objects appends the keys that lines of read --json have in addition to those of --format json.
type Objects struct {
	text       *Text
	namesFiles bool // lines have the file of their packet
	n          uint64
	line       []byte // of the last packet
}

// NewObjects returns the Objects for an input's packets.
func NewObjects(in capture.Input, f Format, namesFiles bool) *Objects {
	f.Number, f.Time = false, dissect.NoTime
	d := in.Description()
	return &Objects{text: NewText(&d, f), namesFiles: namesFiles}
}

// Append appends number, file, link_type, comments and line.
func (o *Objects) Append(b []byte, p *capture.Packet) []byte {
	o.text.AddSources()
	o.n++
	s := o.text.sources.Of(int(p.Source))
	b = strconv.AppendUint(append(b, `,"number":`...), o.n, 10)
	if o.namesFiles {
		b = appendJSON(append(b, `,"file":`...), s.File)
	}
	if !s.IsEthernet() {
		b = strconv.AppendUint(append(b, `,"link_type":`...), uint64(s.LinkType()), 10)
	}
	if comments := p.Comments(); comments != nil {
		b = appendJSON(append(b, `,"comments":`...), comments)
	}
	o.line = o.text.appendPlain(o.line[:0], p, nil)
	return appendJSON(append(b, `,"line":`...), string(bytes.TrimSpace(o.line)))
}

// appendJSON appends a text or texts as JSON. Bytes that are not UTF-8 become U+FFFD.
func appendJSON(b []byte, v any) []byte {
	var text bytes.Buffer
	encoder := message.NewJSONEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // never: texts can always be written
		return append(b, "null"...)
	}
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}
