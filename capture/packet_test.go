package capture

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// factsOf are facts of which each field has another value, as a packet may have it. The second
// packet differs from the first in each of them.
func factsOf(second bool) (f Facts) {
	testfile.Number(&f, second)
	f.Verdict, f.VerdictKind, f.HashKind = Tx, XDPVerdict, ToeplitzHash
	if second {
		f.Verdict, f.VerdictKind, f.HashKind = Redirect, TCVerdict, NoHash
	}
	return f
}

// changedFacts calls check for each field of Facts, with facts that differ in it alone.
func changedFacts(t *testing.T, check func(name string, one, other Facts)) {
	t.Helper()
	first, second := factsOf(false), factsOf(true)
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Facts]()) {
		one := first
		if field.Name == "Time" {
			one.CardTime = 0 // or it would stand in the place of Time
		}
		other := one
		reflect.ValueOf(&other).Elem().Field(i).Set(reflect.ValueOf(second).Field(i))
		if one == other {
			t.Fatalf("%s has no other value", field.Name)
		}
		check(field.Name, one, other)
	}
}

// A field of Facts that is added stands in pcapng, too, and what is read of a file tells of it.
func TestFactsInFiles(t *testing.T) {
	t.Parallel()
	decoded := func(f Facts) string {
		d := describeTwo()
		for i := range d.Sources {
			d.Sources[i].Hook = Exit
		}
		d.OutletName = func(to Outlet) string { return fmt.Sprint("if", to) }
		d.ReasonName = func(_ uint16, f *Facts) string { return fmt.Sprint("REASON_", uint32(f.Reason)) }
		d.LocationName = func(l Location) string { return fmt.Sprint("function_", uint64(l)) }
		e := NewEncoder(&d, EncoderOptions{})
		written := e.Append(e.Header(nil), &Packet{Facts: &f, Data: packetOf(60, 1)})
		r, err := capfile.New(bytes.NewReader(written), "test", capfile.Options{})
		must(t, err)
		for {
			b, err := r.Next()
			if err == io.EOF {
				t.Fatal("the file has no packet")
			}
			must(t, err)
			if b.Kind == capfile.Packet {
				p := b.Packet
				p.Data = nil
				return fmt.Sprintf("%+v", p)
			}
		}
	}
	changedFacts(t, func(name string, one, other Facts) {
		if text := decoded(one); text == decoded(other) {
			t.Errorf("of a pcapng file the same is read for another %s: %s", name, text)
		}
	})
}
