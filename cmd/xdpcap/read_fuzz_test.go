package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
)

// FuzzReadSinks hands any bytes, as a hostile server may send them, to everything that read makes
// of packets. Nothing panics; objects and lines of JSON are JSON, and text has no control
// characters.
func FuzzReadSinks(f *testing.F) {
	f.Add(oddFile(binary.LittleEndian, true), false)
	f.Add(oddFile(binary.BigEndian, true), true)
	f.Fuzz(func(t *testing.T, data []byte, verbose bool) {
		file, err := capfile.New(bytes.NewReader(data), "tcp://host:1", capfile.Options{})
		if err != nil {
			return
		}
		defer file.Close()
		var text, objects, lines, stats bytes.Buffer
		format := lineFormat{}
		if verbose {
			format.Verbose = 3
		}
		sinks := []readSink{
			newReadLines(&stdoutLines{out: &text}, format), newReadObjects(&stdoutLines{out: &objects}, format, true),
			newReadJSONLines(&lines), newReadStats(&stdoutLines{out: &stats}, true), newReadStats(&stdoutLines{out: io.Discard}, false),
		}
		var encoders []readEncoder
		for _, format := range []capture.Format{capture.PCAPNG, capture.PCAP} {
			encoders = append(encoders, newReadEncoder(format, []*capfile.File{file}))
		}
		encoders = append(encoders, &pcapngMerge{files: []*capfile.File{file}})
		for _, e := range encoders {
			e.header(nil)
		}
		for m := capfile.NewMerge([]*capfile.File{file}); ; {
			b, err := m.Next()
			if err != nil {
				break
			}
			for _, s := range sinks {
				if err := s.take(b); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range encoders {
				e.block(nil, b) // a pcap file has one link type
			}
		}
		for _, s := range sinks {
			if err := s.end(); err != nil {
				t.Fatal(err)
			}
			s.notices()
		}
		for _, b := range [][]byte{objects.Bytes(), lines.Bytes(), stats.Bytes()} {
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
