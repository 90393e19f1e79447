package lines

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
	t.Parallel()
	var out bytes.Buffer
	p := NewPrinter(&out, "", func() error { return nil }, Format{})
	p.Begin(capture.Description{Sources: make([]capture.Source, 1)})
	at := time.Unix(1700000000, 1000)
	for range 2 {
		if err := p.Write([]capture.Packet{{Facts: &capture.Facts{Time: at.UnixNano(), WireLen: 60}}}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("written before flush: %q", &out)
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	line := at.Local().Format("15:04:05.000000") + "  [|ether]\n"
	if diff := cmp.Diff(line+line, out.String()); diff != "" {
		t.Error(diff)
	}
}

// A leaving reader has taken so many bytes, and takes no more.
type leaving int

var errGone = errors.New("gone")

func (l leaving) Write(b []byte) (int, error) { return min(len(b), int(l)), errGone }

// The error of a closed pipe reaches the caller, which ends the capture. Packets whose lines were
// not printed, or only in part, are lost.
func TestPrinterError(t *testing.T) {
	t.Parallel()
	line := len("15:04:05.000000  [|ether]\n")
	p := NewPrinter(leaving(2*line+1), "", nil, Format{})
	p.Begin(capture.Description{Sources: make([]capture.Source, 2)})
	packets := make([]capture.Packet, 4)
	for i := range packets {
		packets[i] = capture.Packet{Source: uint16(i % 2), Facts: &capture.Facts{}, Data: make([]byte, 10)}
		if err := p.Write(packets[i : i+1]); err != nil {
			t.Errorf("a line that is only collected: %v", err)
		}
	}
	if err := p.Flush(); !errors.Is(err, errGone) {
		t.Errorf("flush: %v", err)
	}
	own, err := p.End(capture.Accounts{{Seen: 3, Lost: 1, Captured: 2, Bytes: 20}, {Seen: 2, Captured: 2, Bytes: 20}})
	want := capture.Accounts{{Seen: 3, Lost: 2, NotTaken: 1, Captured: 1, Bytes: 10}, {Seen: 2, Lost: 1, NotTaken: 1, Captured: 1, Bytes: 10}}
	if diff := cmp.Diff(want, own); diff != "" || !errors.Is(err, errGone) {
		t.Error(err, diff)
	}
}
