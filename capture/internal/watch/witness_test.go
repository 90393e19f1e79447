package watch

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A witnessTest has a witness of one source, and the counters that it reads.
type witnessTest struct {
	Witness
	source  packet.Source
	counts  xdp.Counts
	account probe.ProgramCounts
	notices int
	lost    []lostProgram // of the last second
}

func newWitnessTest(src packet.Source) *witnessTest {
	w := &witnessTest{source: src}
	w.Witness = Witness{
		read:    func(int) (xdp.Counts, error) { return w.counts, nil },
		listed:  func() []packet.Source { return []packet.Source{w.source} },
		gone:    func(bool) []int { return nil },
		counted: func() ([]probe.ProgramCounts, error) { return []probe.ProgramCounts{w.account}, nil },
		notice:  func(error) { w.notices++ },
		sources: make(map[int]*passing),
	}
	return w
}

// second is a second in which the interface counts packets of which the hook sees some.
func (w *witnessTest) second(received, seen uint64) {
	w.counts.Received += received
	w.account.Seen += seen
	if w.source.Hook == packet.Ingress {
		w.account.Joined += seen
	}
	w.lost = w.Update()
}

func (w *witnessTest) passedBy() uint64 {
	accounts := packet.Accounts{{}}
	w.Fill(accounts)
	return accounts[0].PassedBy
}

// Packets that the interface has counted pass by if the hook has not seen them a second later.
func TestWitness(t *testing.T) {
	t.Parallel()
	native := packet.Source{Name: "eth0", Hook: packet.XDP, Mode: packet.Native, Index: 2}
	for _, test := range []struct {
		name    string
		source  packet.Source
		isCard  bool
		seconds [][2]uint64 // received, seen
		want    uint64
	}{
		{"all are seen", native, false, [][2]uint64{{100, 100}, {100, 100}, {0, 0}}, 0},
		{"they are seen a moment later", native, false, [][2]uint64{{100, 60}, {100, 100}, {0, 40}, {0, 0}}, 0},
		{"some pass by", native, false, [][2]uint64{{100, 90}, {0, 0}}, 10},
		{"they have not had their second yet", native, false, [][2]uint64{{100, 90}}, 0},
		{"the driver counts late", native, true, [][2]uint64{{500, 0}, {300, 100}, {100, 100}, {100, 100}, {0, 0}}, 0},
		{"some pass by, and the driver counts late", native, true, [][2]uint64{{500, 0}, {0, 0}, {0, 0}, {100, 10}, {0, 0}}, 90},
		{"the counters begin anew", native, false, [][2]uint64{{100, 90}, {0, 0}, {^uint64(0) - 99, 0}, {50, 45}, {0, 0}}, 15},
		{"GRO joins before generic XDP", packet.Source{Name: "eth0", Hook: packet.XDP, Mode: packet.Generic, Index: 2}, false, [][2]uint64{{640, 10}, {0, 0}}, 0},
		{"GRO joins no more than 64", packet.Source{Name: "eth0", Hook: packet.XDP, Mode: packet.Generic, Index: 2}, false, [][2]uint64{{650, 10}, {0, 0}}, 10},
		{"the program at tc counts what was joined", packet.Source{Name: "eth0", Hook: packet.Ingress, Index: 2}, false, [][2]uint64{{100, 40}, {0, 0}}, 20},
		{"a bridge", packet.Source{Name: "br0", Hook: packet.XDP, Mode: packet.Native, Driver: "bridge", Index: 2}, false, [][2]uint64{{100, 0}, {0, 0}}, 0},
	} {
		w := newWitnessTest(test.source)
		w.counts.IsHardware = test.isCard
		w.counts.Received, w.account.Seen = 1000, 7
		w.Update()
		for _, s := range test.seconds {
			w.second(s[0], s[1])
		}
		if got := w.passedBy(); got != test.want || w.notices != int(min(test.want, 1)) {
			t.Errorf("%s: %d packets have passed by, want %d; %d notices", test.name, got, test.want, w.notices)
		}
	}
}

// If a card's driver has lost the program, it is to be attached again, and the packets since then
// have passed by. That is no notice of packets that never come to the hook, unless it changes
// nothing.
func TestWitnessOfLostProgram(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		after uint64 // of 100 packets, how many the hook sees when it is attached again
		by    uint64
		want  int // notices
	}{{"it helps", 100, 500, 0}, {"it changes nothing", 0, 500 + 1600, 1}} {
		w := newWitnessTest(packet.Source{Name: "eth0", Hook: packet.XDP, Mode: packet.Native, Index: 2})
		w.counts.IsHardware = true
		w.Update()
		for range 5 {
			w.second(100, 100)
		}
		for i := range 5 {
			if w.second(100, 0); (len(w.lost) == 1) != (i == 4) {
				t.Errorf("%s: after %d seconds: %+v", test.name, i+1, w.lost)
			}
		}
		if len(w.lost) == 1 && w.lost[0].Packets != 500 {
			t.Errorf("%s: lost %+v", test.name, w.lost)
		}
		if w.lost = nil; w.passedBy() != 500 || w.notices != 0 {
			t.Errorf("%s: %d packets have passed by, want 500; %d notices", test.name, w.passedBy(), w.notices)
		}
		for range 20 {
			if w.second(100, test.after); w.lost != nil {
				t.Errorf("%s: it is lost again", test.name)
			}
		}
		if w.passedBy() != test.by || w.notices != test.want {
			t.Errorf("%s: %d packets have passed by, want %d; %d notices, want %d", test.name, w.passedBy(), test.by, w.notices, test.want)
		}
	}
	for _, src := range []packet.Source{
		{Hook: packet.XDP, Mode: packet.Generic}, {Hook: packet.Entry, Mode: packet.Native}, {Hook: packet.Ingress},
	} {
		w := newWitnessTest(src)
		w.source.Index, w.counts.IsHardware = 2, true
		w.Update()
		for i := range 20 {
			if w.second(100, 100*uint64(1-i/10)); w.lost != nil {
				t.Errorf("%v, %v: %+v", src.Hook, src.Mode, w.lost)
			}
		}
	}
}

// An index that is given to another source has the packets of both.
func TestWitnessOfIndex(t *testing.T) {
	t.Parallel()
	w := newWitnessTest(packet.Source{Name: "veth0", Hook: packet.XDP, Mode: packet.Native, Index: 2, Came: 1})
	w.Update()
	w.second(100, 90)
	w.second(0, 0)
	w.source.Came = 9
	w.second(0, 0)
	w.second(50, 49)
	w.second(0, 0)
	if got := w.passedBy(); got != 11 || w.notices != 2 {
		t.Errorf("%d packets have passed by, want 11; %d notices, want 2", got, w.notices)
	}
}

// At the end all packets that were counted are compared, if none comes.
func TestWitnessFinish(t *testing.T) {
	t.Parallel()
	w := newWitnessTest(packet.Source{Name: "veth0", Hook: packet.XDP, Mode: packet.Native, Index: 2})
	w.Update()
	w.counts.Received, w.account.Seen = 20, 5
	w.Finish()
	if got := w.passedBy(); got != 15 {
		t.Errorf("%d packets have passed by, want 15", got)
	}
	busy := newWitnessTest(packet.Source{Name: "veth0", Hook: packet.XDP, Mode: packet.Native, Index: 2})
	busy.read = func(int) (xdp.Counts, error) { busy.counts.Received += 10; return busy.counts, nil }
	busy.Update()
	busy.Finish()
	if got := busy.passedBy(); got != 0 {
		t.Errorf("%d packets have passed by while others come", got)
	}
}
