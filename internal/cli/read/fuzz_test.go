package read

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/lines"
)

// FuzzReadSinks hands any bytes, as a hostile server may send them, to all outputs of read. Nothing
// panics; objects and lines of JSON are valid, and text has no control characters.
func FuzzReadSinks(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, verbose bool) {
		var text, objects, jsonLines, stats bytes.Buffer
		format := lines.Format{}
		if verbose {
			format.Verbose = 3
		}
		read := func(merged bool, outputs func(*file.Input) []capture.Output) {
			files := []file.InputFile{{Name: "tcp://host:1", In: bytes.NewReader(data)}}
			if merged {
				files = append(files, file.InputFile{Name: "b", In: bytes.NewReader(data)})
			}
			in, err := file.NewInput(files, file.InputOptions{})
			if err == nil {
				capture.Run(context.Background(), in, outputs(in)...) // what is damaged is an error
			}
		}
		for _, merged := range []bool{false, true} {
			read(merged, func(in *file.Input) []capture.Output {
				summary := newStatistics(&stats, true)
				summary.Input = in
				return []capture.Output{
					lines.NewPrinter(&text, "", func() error { return nil }, format),
					file.NewWriter(&objects, file.Options{Format: file.JSON, MoreJSON: lines.NewObjects(in, format, true).Append}),
					file.NewWriter(&jsonLines, file.Options{Format: file.JSON}),
					file.NewWriter(io.Discard, file.Options{Format: file.PCAPNG}),
					summary,
				}
			})
			read(merged, func(in *file.Input) []capture.Output { // a pcap file has one link type
				return []capture.Output{file.NewWriter(io.Discard, file.Options{Format: file.PCAP})}
			})
		}
		for _, b := range [][]byte{objects.Bytes(), jsonLines.Bytes(), stats.Bytes()} {
			for line := range bytes.Lines(b) {
				if !json.Valid(line) || !utf8.Valid(line) {
					t.Errorf("%q", line)
				}
			}
		}
		for line := range bytes.Lines(text.Bytes()) {
			for _, r := range string(bytes.TrimSuffix(line, []byte("\n"))) {
				if r < ' ' && r != '\t' || r == 0x7f {
					t.Errorf("%q", line)
					break
				}
			}
		}
	})
}
