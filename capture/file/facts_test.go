package file

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// factsOf returns facts in which each field has another value. The second packet differs from the
// first in each field.
func factsOf(second bool) (f capture.Facts) {
	testfile.Number(&f, second)
	f.Verdict, f.VerdictKind, f.HashKind = capture.Tx, capture.XDPVerdict, capture.ToeplitzHash
	if second {
		f.Verdict, f.VerdictKind, f.HashKind = capture.Redirect, capture.TCVerdict, capture.NoHash
	}
	return f
}

// Lines of JSON have each field of Facts, also fields that are added later.
func TestFactsInLines(t *testing.T) {
	t.Parallel()
	line := func(f capture.Facts) string {
		var out bytes.Buffer
		w := NewWriter(&out, Options{Format: JSON})
		d := describeTwo()
		for i := range d.Sources {
			d.Sources[i].Hook = capture.Exit
		}
		d.OutletName = func(to capture.Outlet) string { return fmt.Sprint("if", to) }
		d.ReasonName = func(_ uint16, f *capture.Facts) string { return fmt.Sprint("REASON_", uint32(f.Reason)) }
		d.LocationName = func(l capture.Location) string { return fmt.Sprint("function_", uint64(l)) }
		w.Begin(d)
		w.Write([]capture.Packet{{Facts: &f, Data: packetOf(60, 1)}})
		w.End(make(capture.Accounts, 2))
		return out.String()
	}
	first, second := factsOf(false), factsOf(true)
	for i, field := range reflect.VisibleFields(reflect.TypeFor[capture.Facts]()) {
		if !field.IsExported() {
			continue
		}
		one := first
		if field.Name == "Time" {
			one.CardTime = 0 // otherwise it would replace Time
		}
		other := one
		reflect.ValueOf(&other).Elem().Field(i).Set(reflect.ValueOf(second).Field(i))
		if text := line(one); text == "" || text == line(other) {
			t.Errorf("the line is the same for another %s: %s", field.Name, text)
		}
	}
}
