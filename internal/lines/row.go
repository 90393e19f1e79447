package lines

import (
	"bytes"
	"encoding/json"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/message"
)

// columns are the keys of a line, in its order, which are also the columns of a row.
var columns = [...]string{
	"time", "interface", "namespace", "pod", "direction", "hook", "program", "verdict", "queue", "id", "lost_before", "length", "captured",
	"weight", "to", "reason", "location", "device", "gso_size", "run_time_ns", "hash", "hash_by", "clock_set_back_ns", "ifindex",
	"source_mac", "destination_mac", "vlans", "family", "protocol", "source", "source_port", "destination", "destination_port",
	"tcp_flags", "community_id", "returned",
}

// AppendTitles appends the first row of a file, with the names of the columns.
func AppendTitles(b []byte) []byte {
	for i, name := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, name...)
	}
	return append(b, '\r', '\n')
}

// RowRoom returns an upper bound of the length of the next packet's row, in bytes: that of its
// line, in which the quotes are as long, and the commas of missing keys.
func (e *JSONEncoder) RowRoom(p *capture.Packet) int { return e.Room(p) + 2*len(columns) }

// AppendRow appends a packet's line as a row of RFC 4180: without a value where the line lacks the
// key, and with spaces between the elements of a list. A row has no line break, because characters
// that a terminal would not print are escaped.
func (e *JSONEncoder) AppendRow(b []byte, p *capture.Packet) []byte {
	e.line = e.Append(e.line[:0], p)
	rest := e.line[1:]
	for i, name := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		var value []byte
		if value, rest = cutKey(rest, name); value != nil {
			b = appendCell(b, value)
		}
	}
	return append(b, '\r', '\n')
}

// cutKey returns the value of a key at the beginning of the text, and the rest of the text. value
// is nil if another key is there.
func cutKey(text []byte, name string) (value, rest []byte) {
	n := len(name) + 3 // two quotes and a colon
	if len(text) < n || string(text[1:1+len(name)]) != name || text[n-2] != '"' {
		return nil, text
	}
	text = text[n:]
	end := bytes.IndexAny(text, ",}")
	switch text[0] {
	case '"':
		for end = 1; text[end] != '"'; end++ {
			if text[end] == '\\' {
				end++
			}
		}
		end++
	case '[':
		end = bytes.IndexByte(text, ']') + 1
	}
	return text[:end], text[end+1:]
}

// appendCell appends a value of JSON as a cell.
func appendCell(b, value []byte) []byte {
	switch value[0] {
	case 'n': // null
		return b
	case '[':
		for _, c := range value[1 : len(value)-1] {
			switch c {
			case '"':
			case ',':
				b = append(b, ' ')
			default:
				b = append(b, c)
			}
		}
		return b
	case '"':
		text := value[1 : len(value)-1]
		if bytes.IndexByte(text, '\\') >= 0 {
			var s string
			json.Unmarshal(value, &s) // always: it was made by json.Marshal
			text = []byte(message.Escape(s))
		}
		if !bytes.ContainsAny(text, `,"`) {
			return append(b, text...)
		}
		b = append(b, '"')
		for _, c := range text {
			if c == '"' {
				b = append(b, '"')
			}
			b = append(b, c)
		}
		return append(b, '"')
	}
	return append(b, value...)
}
