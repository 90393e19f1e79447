package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The chart is well-formed, and a bar is as long as its figure says.
func TestChart(t *testing.T) {
	t.Parallel()
	text := testResults(t).chart()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
	}
	for _, want := range []string{
		`<rect class="ring" x="172" y="`, `width="98" height="12"/>`, // 80 % of 122 pixels
		">64 bytes<", ">1518 bytes<", ">xdpcap --sink, ring<", ">tcpdump<", ">80 %<", "Some CPU", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}
