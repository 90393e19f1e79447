package capture

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An entry whose exit the kernel skips, because another tracer is attached to the program
// meanwhile, is undecided. The next packet, in the same memory, gets its own exit.
func TestEntryWithoutExit(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for name, hooks := range map[string][]Hook{"entry": {Entry}, "entry and exit": {Entry, Exit}} {
		t.Run(name, func(t *testing.T) {
			// The target waits a limited time, and to attach may take longer on a busy machine.
			for attempt := 0; !testEntryWithoutExit(t, hooks); attempt++ {
				if attempt == 5 {
					t.Fatal("each time the packet had left before the other tracer was attached")
				}
			}
		})
	}
}

// testEntryWithoutExit returns false if the packet has left the target too early.
func testEntryWithoutExit(t *testing.T, hooks []Hook) bool {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Waiting)
	must(t, err)
	defer target.Close()
	other, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, License: "GPL",
		AttachTarget: target.Program(), AttachTo: string(testnet.Waiting),
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	must(t, err)
	defer other.Close()
	o := Options{Interfaces: []string{pair.RxName}, Hooks: hooks, Verdicts: []Verdict{Pass}}
	s := openAt(t, pair.Rx, o)
	sent := make(chan struct{})
	go func() {
		testnet.Send(t, pair, testnet.UDPFrame(testnet.MinFrame, 0))
		close(sent)
	}()
	testnet.WaitFor(t, "the packet inside the target", func() bool {
		n, err := target.Packets()
		return n > 0 || err != nil
	})
	tracing, err := link.AttachTracing(link.TracingOptions{Program: other})
	must(t, err)
	defer tracing.Close()
	select {
	case <-sent:
		return false
	default:
	}
	must(t, target.OpenGate())
	<-sent
	testnet.Send(t, pair, testnet.UDPFrame(testnet.MinFrame, 1))
	s.Stop()
	m, account := s.run(t)
	want := Accounts{{Seen: 2, FilteredOut: 1, Undecided: 1, Captured: 1, Bytes: testnet.MinFrame}}
	if len(hooks) > 1 {
		want = append(want, Account{Seen: 1, Captured: 1, Bytes: testnet.MinFrame})
	}
	if diff := cmp.Diff(want, account); diff != "" {
		t.Error(diff)
	}
	for _, p := range m.packets {
		if number, _ := testnet.Sequence(p.Data); number != 1 {
			t.Errorf("packet %d at source %d", number, p.Source)
		}
	}
	return true
}

// An entry that waits has only the first buffer of a packet in several, and the exit has all of
// them. Its time is when the packet came in.
func TestEntryInSeveralBuffers(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for _, transport := range []Transport{TransportPerf, TransportRing} {
		t.Run(transport.String(), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
			target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags)
			must(t, err)
			defer target.Close()
			s := openAt(t, pair.Rx, Options{Interfaces: []string{pair.RxName}, Hooks: []Hook{Entry, Exit}, Verdicts: []Verdict{Pass}, Transport: transport})
			frame := testnet.UDPFrame(8000, 1)
			testnet.Send(t, pair, frame)
			s.Stop()
			m, account := s.run(t)
			if len(m.packets) != 2 || m.packets[0].Source != 0 || m.packets[1].Source != 1 {
				t.Fatalf("%d packets, want the entry and the exit: %v", len(m.packets), account)
			}
			entry, exit := m.packets[0], m.packets[1]
			if n := len(entry.Data); n == 0 || n >= len(frame) || !bytes.Equal(entry.Data, frame[:n]) || entry.WireLen != uint32(len(frame)) {
				t.Errorf("the entry has %d bytes of %d", n, entry.WireLen)
			}
			if !bytes.Equal(exit.Data, frame) {
				t.Errorf("the exit has %d bytes of %d", len(exit.Data), exit.WireLen)
			}
			if between := exit.Time - entry.Time; between < int64(exit.RunTime) {
				t.Errorf("%d ns are between entry and exit, and the program ran %d", between, exit.RunTime)
			}
		})
	}
}

// A packet that interrupts the traced program for another packet, on the same CPU, has its own
// entry and exit, and so has the other one.
func TestEntriesInterrupted(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for _, transport := range []Transport{TransportPerf, TransportRing} {
		t.Run(transport.String(), func(t *testing.T) { testEntriesInterrupted(t, transport) })
	}
}

func testEntriesInterrupted(t *testing.T, transport Transport) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.NewTarget(testnet.Waiting)
	must(t, err)
	defer target.Close()
	must(t, pair.Rx.Do(func() error { return receiveOnFirstCPU(t, pair, target.Program()) }))
	s := openAt(t, pair.Rx, Options{Interfaces: []string{pair.RxName}, Hooks: []Hook{Entry, Exit}, Verdicts: []Verdict{Pass}, Transport: transport})

	outer, inner := testnet.UDPFrame(200, 0), testnet.UDPFrame(300, 1)
	context := [6]uint32{0, uint32(len(outer)), 0, uint32(pair.RxIndex)} // of struct xdp_md
	ran := make(chan error)
	go func() {
		ran <- machine.Quiet(0, func() error {
			return pair.Rx.Do(func() error {
				_, err := target.Program().Run(&ebpf.RunOptions{Data: outer, Context: &context})
				return err
			})
		})
	}()
	inside := func(n uint64) {
		t.Helper()
		testnet.WaitFor(t, "packets inside the target", func() bool {
			inside, err := target.Packets()
			return inside == n || err != nil
		})
	}
	inside(1)
	sent := make(chan struct{})
	go func() {
		testnet.Send(t, pair, inner)
		close(sent)
	}()
	inside(2)
	must(t, target.OpenGate())
	must(t, <-ran)
	<-sent
	s.Stop()
	m, account := s.run(t)

	ids := make(map[uint64][]int) // the lengths of the packets
	for _, p := range m.packets {
		ids[p.ID] = append(ids[p.ID], len(p.Data))
		want := outer
		if len(p.Data) == len(inner) {
			want = inner
		}
		if diff := cmp.Diff(want, p.Data); diff != "" {
			t.Error(diff)
		}
	}
	if len(ids) != 2 {
		t.Errorf("%d packets by their ids, want 2", len(ids))
	}
	for id, lengths := range ids {
		if len(lengths) != 2 || lengths[0] != lengths[1] {
			t.Errorf("the packet %x has images of %v bytes", id, lengths)
		}
	}
	each := Account{Seen: 2, Captured: 2, Bytes: uint64(len(outer) + len(inner))}
	if diff := cmp.Diff(Accounts{each, each}, account); diff != "" {
		t.Error(diff)
	}
}

// receiveOnFirstCPU attaches a program in generic mode to the interface that receives, whose
// packets CPU 0 handles.
func receiveOnFirstCPU(t *testing.T, pair *testnet.Pair, p *ebpf.Program) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: pair.RxIndex, Flags: link.XDPGenericMode})
	if err != nil {
		return err
	}
	t.Cleanup(func() { l.Close() })
	dir := t.TempDir()
	if err := unix.Mount("sysfs", dir, "sysfs", 0, ""); err != nil { // that of this network namespace
		return err
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	return os.WriteFile(filepath.Join(dir, "class/net", pair.RxName, "queues/rx-0/rps_cpus"), []byte("1"), 0)
}
