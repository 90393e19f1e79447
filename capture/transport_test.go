package capture

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A transport that is added to the table is known wherever its kind is asked for: by users, when
// rings are chosen, in files, and in advice about a loss.
//
// It is not parallel, because it changes the list of all kinds.
func TestTransportKinds(t *testing.T) {
	next := Transport(4)
	if n := len(Transports()); n != 2 || next.String() != "transport 4" {
		t.Errorf("%d transports, and the next is %v", n, next)
	}
	if err := (&Options{Transport: next}).checkRings(); err == nil || err.Error() != "transport 4: no such transport" {
		t.Error(err)
	}
	list := ring.NewLists()
	added, remove := ring.AddKind("mail", "a letter for each packet", 1000, list, func(r *ring.Options) error {
		r.Size = MinBuffer
		return nil
	})
	t.Cleanup(remove)

	if all := Transports(); !slices.Equal(all, []Transport{TransportPerf, TransportRing, added}) {
		t.Errorf("the transports are %v", all)
	}
	if parsed, err := ParseTransport("mail"); err != nil || parsed != added || parsed.About() != "a letter for each packet" || parsed.Lighter() != TransportPerf || parsed.OpensPerf() {
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
	rings := o.rings()
	must(t, ring.New(rings).Refresh())
	if len(list.Looks) != 0 {
		t.Error("another transport is opened")
	}
	if size := rings.Enough(100, 1); size != 0 {
		t.Errorf("rings of %d bytes are said to help, and no ring can be larger than %d", size, MinBuffer)
	}

	d := describeTwo()
	d.Options = o
	if header := string(NewEncoder(&d, EncoderOptions{}).Header(nil)); !strings.Contains(header, "transport: mail, ") {
		t.Errorf("the file does not name the transport: %q", header)
	}
}

// Another capture may lock memory between the trial of the rings' size and their opening. If the
// size is the default, it is chosen once more. A size that was asked for is refused at once.
//
// It is not parallel, because it changes the list of all kinds.
func TestOpenChoosesRingsAgain(t *testing.T) {
	testnet.RequireRoot(t)
	fits := 0
	list := new(ring.Lists)
	added, remove := ring.AddKind("crowded", "", 1000, list, func(r *ring.Options) error {
		fits++
		r.Size = MinBuffer
		return nil
	})
	t.Cleanup(remove)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ buffer, refused, fits int }{{0, 0, 1}, {0, 2, 3}, {0, 9, openTries}, {MinBuffer, 1, 1}} {
		fits, list.Refuse, list.Err = 0, test.refused, ErrLockedMemory
		err := pair.Rx.Do(func() error {
			s, err := Open(Options{Interfaces: []string{pair.RxName}, Transport: added, Buffer: test.buffer})
			if err != nil {
				return err
			}
			return s.Close()
		})
		if fits != test.fits || errors.Is(err, ErrLockedMemory) != (test.refused >= test.fits) {
			t.Errorf("%+v: the size was chosen %d times, %v", test, fits, err)
		}
	}
}
