package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/lines"
)

var asJSON = formatKind{
	name:       "json",
	about:      "a line for each packet",
	suffixes:   []string{".json", ".jsonl"},
	isText:     true,
	hasWeights: true,
	open: func(d *capture.Description, o *Options) encoder {
		e := lines.NewJSONEncoder(d, o.MoreJSON)
		return &textEncoder{lines: e, room: e.Room, append: e.Append}
	},
}

var asCSV = formatKind{
	name:       "csv",
	about:      "a row for each packet",
	suffixes:   []string{".csv"},
	isText:     true,
	hasWeights: true,
	open: func(d *capture.Description, _ *Options) encoder {
		e := lines.NewJSONEncoder(d, nil)
		return &textEncoder{lines: e, titles: lines.AppendTitles(nil), room: e.RowRoom, append: e.AppendRow}
	},
}

// A textEncoder encodes one line per packet, after the line with the titles of CSV's columns.
type textEncoder struct {
	lines  *lines.JSONEncoder
	titles []byte
	room   func(*capture.Packet) int // an upper bound for the bytes of a packet's line
	append func([]byte, *capture.Packet) []byte
}

func (e *textEncoder) header(b []byte) []byte { return append(b, e.titles...) }

func (e *textEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	e.lines.AddSources()
	for ; n < len(packets) && c.hasRoom(e.room(&packets[n])); n++ {
		c.blocks = e.append(c.blocks, &packets[n])
		c.notePacket(&packets[n])
	}
	return n, nil
}

func (e *textEncoder) trailer(b []byte, _ *statistics) []byte { return b }
