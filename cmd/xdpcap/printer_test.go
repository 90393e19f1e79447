package main

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
)

// Lines are collected until they are flushed, and each stands by itself.
func TestPrinter(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out, 0)
	at := time.Unix(1700000000, 1000)
	for range 2 {
		if err := p.Write(&capture.Packet{Time: at.UnixNano(), WireLen: 60}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("written before flush: %q", &out)
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	line := at.Local().Format("15:04:05.000000") + " [|ether]\n"
	if diff := cmp.Diff(line+line, out.String()); diff != "" {
		t.Error(diff)
	}
}

// failing is a writer whose reader has gone.
type failing struct{}

var errGone = errors.New("gone")

func (failing) Write([]byte) (int, error) { return 0, errGone }

// The error of a closed pipe must reach the caller, who ends the capture.
func TestPrinterError(t *testing.T) {
	p := newPrinter(failing{}, 0)
	if err := p.Write(new(capture.Packet)); err != nil {
		t.Errorf("a line that fits into the buffer: %v", err)
	}
	if err := p.Flush(); !errors.Is(err, errGone) {
		t.Errorf("flush: %v", err)
	}
}
