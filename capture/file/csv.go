package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/lines"
)

var asCSV = formatKind{
	name:       "csv",
	about:      "a row for each packet",
	suffixes:   []string{".csv"},
	isText:     true,
	hasWeights: true,
	open: func(d *capture.Description, _ *Options) encoder {
		return csvEncoder{lines.NewJSONEncoder(d, nil)}
	},
}

// csvEncoder encodes one row per packet, after a row with the names of the columns.
type csvEncoder struct{ lines *lines.JSONEncoder }

func (csvEncoder) header(b []byte) []byte { return lines.AppendTitles(b) }

func (e csvEncoder) packets(c *chunk, packets []capture.Packet) (n int, err error) {
	e.lines.AddSources()
	for ; n < len(packets) && c.hasRoom(e.lines.RowRoom(&packets[n])); n++ {
		c.blocks = e.lines.AppendRow(c.blocks, &packets[n])
		c.noteEnd(&packets[n])
	}
	return n, nil
}

func (csvEncoder) trailer(b []byte, _ *statistics) []byte { return b }
