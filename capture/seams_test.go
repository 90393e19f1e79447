package capture

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A session works with a transport, a hook and an output that only this test has, so a new kind of
// each needs no change in the rest of the package.
func TestSeams(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	recordAt := func(ns uint64, source uint16) []byte {
		s := ring.NewRecord(packet, ns)
		s.Source, s.ID = source, ns
		return s.Raw(packet)
	}
	lists := []*ring.List{
		{Records: [][]byte{recordAt(10, 0), recordAt(40, 1)}},
		{Records: [][]byte{recordAt(20, 0), {1, 2, 3}, recordAt(30, 0)}},
	}
	first := &stillHook{source: Source{Name: "first"}, account: kernel.SamplerAccount{Seen: 10, Lost: 6, Sampled: 4}}
	second := &stillHook{source: Source{Name: "second"}, account: kernel.SamplerAccount{Seen: 1, Sampled: 1}}
	s := openStill(t, Options{}, ring.NewLists(lists...).New, first, second)
	s.Stop()
	out, account := s.run(t)
	var ids []uint64
	for _, p := range out.packets {
		ids = append(ids, p.ID)
	}
	same(t, []uint64{10, 20, 30, 40}, ids, "the packets' order")
	want := Accounts{{Seen: 10, Lost: 6, Invalid: 1, Captured: 3, Bytes: 180}, {Seen: 1, Captured: 1, Bytes: 60}}
	same(t, want, account, "the account")
	for _, h := range []*stillHook{first, second} {
		same(t, []string{"load", "attach", "detach", "close"}, h.calls, "hook %s", h.source.Name)
	}
	if name := out.description.Sources[1].Sampler.Name; name != "still" {
		t.Errorf("the description says that %q samples", name)
	}
	for i, r := range lists {
		if !r.Closed {
			t.Errorf("ring %d was not closed", i)
		}
	}
}

// Whatever a ring holds, each account adds up or says by how much it does not, which is a notice,
// and no count falls below 0.
func TestFaultyRing(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	damaged := func(change func(*ring.Record)) []byte {
		s := ring.NewRecord(packet, 10)
		change(&s)
		return s.Raw(packet)
	}
	good := damaged(func(*ring.Record) {})
	noSource := damaged(func(s *ring.Record) { s.Source = 7 })
	other := damaged(func(s *ring.Record) { s.Source, s.Dropped = 1, 2 })
	otherNoCookie := damaged(func(s *ring.Record) { s.Source, s.Cookie = 1, 0 })
	noCookie := damaged(func(s *ring.Record) { s.Cookie = 0 })
	for _, test := range []struct {
		name    string
		sent    [2]uint64 // by the programs
		records [][]byte
		want    Accounts
	}{
		{"no such source", [2]uint64{0, 1}, [][]byte{noSource},
			Accounts{{}, {Seen: 1, Invalid: 1}}},
		{"invalid, and of another source", [2]uint64{2, 0}, [][]byte{good, otherNoCookie},
			Accounts{{Seen: 2, Invalid: 1, Captured: 1, Bytes: 60}, {}}},
		{"valid, and of another source", [2]uint64{2, 0}, [][]byte{good, other},
			Accounts{{Seen: 2, Lost: 1, Captured: 1, Bytes: 60}, {Captured: 1, Bytes: 60, Unexplained: -1}}},
		{"never sent", [2]uint64{1, 0}, [][]byte{good, noCookie},
			Accounts{{Seen: 1, Invalid: 1, Captured: 1, Bytes: 60, Unexplained: -1}, {}}},
		{"losses decrease", [2]uint64{1, 2}, [][]byte{good, other, damaged(func(s *ring.Record) { s.Source, s.Dropped = 1, 1 })},
			Accounts{{Seen: 1, Captured: 1, Bytes: 60}, {Seen: 2, Captured: 2, Bytes: 120}}},
	} {
		t.Run(test.name, func(t *testing.T) { // one after the other, because a session changes records
			var hooks []probe.Hook
			for i, sent := range test.sent {
				source := Source{Name: fmt.Sprint("source", i)}
				hooks = append(hooks, &stillHook{source: source, account: kernel.SamplerAccount{Seen: sent, Sampled: sent}})
			}
			var told, unexplained []string
			s := openStill(t, Options{Notice: notices(&told)}, ring.NewLists(&ring.List{Records: test.records}).New, hooks...)
			s.Stop()
			out, account := s.run(t)
			same(t, test.want, account)
			for i, a := range test.want {
				if a.Unexplained != 0 {
					unexplained = append(unexplained, fmt.Sprintf(
						"source%d: the account does not add up, which is a bug of xdpcap or of the kernel: %s", i, a.Equation()))
				}
			}
			same(t, unexplained, told, "notices")
			for _, p := range out.packets {
				if p.Dropped > 2 {
					t.Errorf("a packet with %d losses before it", p.Dropped)
				}
			}
		})
	}
}

// The ring of a CPU that comes online while the session runs is read, too. For one that can have no
// ring, a notice says what becomes of its packets.
func TestRingsLater(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	now, err := machine.Monotonic()
	must(t, err)
	later := &ring.List{Records: [][]byte{ring.NewRecord(packet, uint64(now)).Raw(packet)}}
	rings := ring.Lists{Looks: []ring.Look{{}, {Rings: []*ring.List{later}, Err: errors.New("no ring for CPU 7")}}}
	var told []string
	s := openStill(t, Options{Count: 1, Notice: notices(&told)}, rings.New, hookWithOne())
	_, account := s.run(t)
	if want := (Account{Seen: 1, Captured: 1, Bytes: 60}); account[0] != want || !later.Closed {
		t.Errorf("the account %+v, want %+v; the ring was closed: %v", account[0], want, later.Closed)
	}
	want := []string{"packets on a CPU that has come online are lost: no ring for CPU 7"}
	same(t, want, told, "notices")
}

// A damaged record is rejected once, and what follows is not held up.
func TestMergeRejects(t *testing.T) {
	t.Parallel()
	memory := ring.NewMemory(4096, 0, 1)
	packet := packetOf(60, 1)
	bad := ring.NewRecord(packet, 1)
	bad.Source, bad.Cookie = 1, 0
	memory.Put(0, bad, packet)
	memory.Put(0, ring.NewRecord(packet, 2), packet)
	r := &probe.Reader{Rings: memory.Set, Lost: ring.Losses{Slots: 2}, Ledger: probe.NewLedger(2, 0)}
	r.Rings.Gather(math.MaxUint64)
	packets := make([]Packet, ring.GroupSize)
	if n := r.Take(packets); n != 1 || packets[0].Time != 2 || r.Rings.IsReady() {
		t.Errorf("%d packets, the first %+v", n, packets[0].Facts)
	}
	same(t, Accounts{{Captured: 1, Bytes: 60}, {Invalid: 1}}, r.Ledger.Counts())
}

// What a CPU without a ring loses says nothing about the size of the rings: before it gets its
// first one, and after it was offline.
func TestLossWithoutRing(t *testing.T) {
	t.Parallel()
	h := &stillHook{account: kernel.SamplerAccount{Seen: 10, Sampled: 10}}
	rings := ring.Lists{Number: 1}
	s := openStill(t, Options{}, rings.New, h)
	s.monitor.Close()
	w := s.newFirstLoss()
	for _, step := range []struct {
		ring       uint32
		lost, want uint64
	}{
		{1, 0, 0},
		{0, 1000, 0}, // the CPU was offline, and has come back
		{2, 1500, 0}, // it has a ring, and lost 500 before that
		{2, 1600, 100},
		{2, 1700, 200},
	} {
		rings.Number = step.ring
		h.account.Lost = step.lost
		must(t, h.Attach())
		now, err := w.Read()
		if err != nil || now.Lost != step.want {
			t.Errorf("ring %d, %d lost: read %d, want %d; %v", step.ring, step.lost, now.Lost, step.want, err)
		}
	}
	// Nor does what a CPU has lost before it is found to have no ring.
	if w.Check(false); w.Began == nil || !s.reader.Laps.IsOn() {
		t.Error("nothing is measured after a loss")
	}
	rings.Number = 0
	if w.Check(false); w.Began != nil || s.reader.Laps.IsOn() {
		t.Error("it is measured why a CPU without a ring loses packets")
	}
}
