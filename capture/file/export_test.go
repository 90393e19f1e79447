package file

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture"
)

// AddFormat adds a format until the end of a test. Its files are text, and have only this header.
func AddFormat(t *testing.T, name, about, suffix, header string) Format {
	t.Helper()
	before := formatKinds
	t.Cleanup(func() { formatKinds = before })
	formatKinds = append(formatKinds[:len(before):len(before)], &formatKind{
		name: name, about: about, suffixes: []string{suffix}, isText: true,
		open: func(*capture.Description, *Options) encoder { return headerEncoder(header) },
	})
	return Format(len(before))
}

type headerEncoder string

func (e headerEncoder) header(b []byte) []byte { return append(b, e...) }
func (headerEncoder) packets(_ *chunk, packets []capture.Packet) (int, error) {
	return len(packets), nil
}
func (headerEncoder) trailer(b []byte, _ *statistics) []byte { return b }
