package capture

import (
	"slices"
	"strings"
	"testing"
)

// A transport that is added to the table is known wherever its kind is asked for: by users, when
// rings are chosen, in files, and in advice about a loss.
func TestTransportKinds(t *testing.T) {
	last := transportKinds
	t.Cleanup(func() { transportKinds = last })
	added, list := Transport(len(transportKinds)), listed()
	kind := &transportKind{
		name: "mail", about: "a letter for each packet", maxSnapLen: 1000, maxRing: MinBuffer,
		fit: func(o *Options) error {
			o.Buffer = MinBuffer
			return nil
		},
		memory: perfRings, open: list, lighter: TransportPerf,
	}
	if n := len(Transports()); n != 2 || added.String() != "transport 4" {
		t.Errorf("%d transports, and the next is %v", n, added)
	}
	if err := (&Options{Transport: added}).checkRings(); err == nil || err.Error() != "transport 4: no such transport" {
		t.Error(err)
	}
	transportKinds = append(last[:len(last):len(last)], kind)

	if all := Transports(); !slices.Equal(all, []Transport{TransportPerf, TransportRing, added}) {
		t.Errorf("the transports are %v", all)
	}
	if parsed, err := ParseTransport("mail"); err != nil || parsed != added || parsed.About() != kind.about || parsed.Lighter() != TransportPerf || parsed.OpensPerf() {
		t.Errorf("mail is parsed as %v, %v: %s", parsed, err, parsed.About())
	}
	if _, err := ParseTransport("post"); err == nil || err.Error() != `transport "post": must be perf, ring, mail or auto` {
		t.Error(err)
	}

	var notices []error
	o := Options{Transport: added, SnapLen: 2000, Notice: func(err error) { notices = append(notices, err) }}
	if err := o.checkRings(); err != nil || o.Buffer != MinBuffer || o.Transport != added {
		t.Errorf("rings of %d bytes by %v: %v", o.Buffer, o.Transport, err)
	}
	if err := o.checkSnapLen(); err != nil || o.SnapLen != 1000 || len(notices) != 1 {
		t.Errorf("snapshot length %d: %v, notices %v", o.SnapLen, err, notices)
	}
	if o.Transport.kind().open(&o) != list(&o) {
		t.Error("another transport is opened")
	}
	if size := enough(&o, 100, 1); size != 0 {
		t.Errorf("rings of %d bytes are said to help, and no ring can be larger than %d", size, MinBuffer)
	}

	d := describeTwo()
	d.Options = o
	if header := string(NewEncoder(&d, EncoderOptions{}).Header(nil)); !strings.Contains(header, "transport: mail, ") {
		t.Errorf("the file does not name the transport: %q", header)
	}
}
