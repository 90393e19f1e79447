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
		return jsonEncoder{lines.NewJSONEncoder(d, o.MoreJSON)}
	},
}

// jsonEncoder encodes one line of JSON per packet, without header or trailer.
type jsonEncoder struct{ lines *lines.JSONEncoder }

func (jsonEncoder) header(b []byte) []byte { return b }

func (e jsonEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	e.lines.AddSources()
	for ; n < len(packets) && c.hasRoom(e.lines.Room(&packets[n])); n++ {
		c.blocks = e.lines.Append(c.blocks, &packets[n])
		c.noteEnd(&packets[n])
	}
	return n, nil
}

func (jsonEncoder) trailer(b []byte, _ *statistics) []byte { return b }
