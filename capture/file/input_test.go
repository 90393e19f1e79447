package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// Packets stay valid until the next Read, also if the windows of files advance meanwhile, and are
// in the order of their times. Read allocates no memory for them; the test is serial to count that.
func TestInputPackets(t *testing.T) {
	const each = 3000
	in := inputOf(t, InputOptions{}, testfile.Numbered(each, 0, 2, "a", "b"), testfile.Numbered(each, 1, 2, "c"))
	packets := make([]capture.Packet, 100)
	want := 0
	for {
		n, err := in.Read(packets, nil)
		if err == io.EOF {
			break
		}
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		for _, p := range packets[:n] {
			if got := binary.LittleEndian.Uint64(p.Data); got != uint64(want) || p.Time != int64(want) || p.ID != uint64(want/2) {
				t.Fatalf("packet %d has the bytes of %d, the time %d and the id %d", want, got, p.Time, p.ID)
			}
			want++
		}
	}
	if want != 2*each {
		t.Errorf("%d packets of %d", want, 2*each)
	}
	if s, ok := in.Statistics(0); !ok || *s.Seen != 7 || *s.Captured != each {
		t.Errorf("statistics %+v", s)
	}
	in = inputOf(t, InputOptions{}, testfile.Numbered(20*groupSize, 0, 1, "a"))
	in.Read(packets, nil)
	if n := testing.AllocsPerRun(10, func() { in.Read(packets, nil) }); n > 0 {
		t.Errorf("%v allocations for %d packets", n, groupSize)
	}
}

// grown is an output that records the sources when their first packets arrive.
type grown struct {
	outputs
	more   func(int) []capture.Source
	labels []string
	counts map[string]int
}

// outputs are the methods of an Output that a test does not need.
type outputs struct{}

func (outputs) Begin(capture.Description) error                      { return nil }
func (outputs) Write([]capture.Packet) error                         { return nil }
func (outputs) Flush() error                                         { return nil }
func (outputs) End(final capture.Accounts) (capture.Accounts, error) { return final, nil }

func (g *grown) Begin(d capture.Description) error {
	g.more, g.counts = d.More, make(map[string]int)
	return nil
}

func (g *grown) Write(packets []capture.Packet) error {
	for _, s := range g.more(len(g.labels)) {
		g.labels = append(g.labels, s.Label())
	}
	for i := range packets {
		p := &packets[i]
		g.counts[g.labels[p.Source]]++
		s := g.more(0)[p.Source]
		_, queue := s.QueueOf(p)
		id, known := s.IDOf(p)
		_, verdict := s.VerdictOf(p)
		direction, directed := s.DirectionOf(p)
		if queue || !known || id != p.ID || verdict || !directed || direction != capture.In {
			return fmt.Errorf("what is known of packet %d", p.ID)
		}
	}
	return nil
}

// Sources are added when files describe them, and the account of each adds up, also with a filter
// and a limit of packets.
func TestInputAccounts(t *testing.T) {
	t.Parallel()
	o := InputOptions{Match: func(s *capture.Source, p *capture.Packet) bool { return p.ID%2 == 0 && s.IsEthernet() }, Count: 6}
	in := inputOf(t, o, testfile.Numbered(9, 0, 10, "eth0", "eth0@egress", "eth1:prog@fexit"), testfile.Numbered(9, 5, 10, ""))
	g := &grown{}
	accounts, err := capture.Run(context.Background(), in, g)
	must(t, err)
	if diff := cmp.Diff([]string{"eth0", "file1", "eth0@egress", "eth1:prog@fexit"}, g.labels); diff != "" {
		t.Error(diff)
	}
	want := capture.Accounts{
		{Seen: 2, FilteredOut: 1, Captured: 1, Bytes: 60}, {Seen: 5, FilteredOut: 2, Captured: 3, Bytes: 60 + 62 + 64},
		{Seen: 2, FilteredOut: 1, Captured: 1, Bytes: 64}, {Seen: 1, Captured: 1, Bytes: 62},
	}
	if diff := cmp.Diff(want, accounts[0]); diff != "" {
		t.Error(diff)
	}
	sources := in.Sources()
	if s := sources[3]; s.Name != "eth1" || s.Target.Name != "prog" || s.Hook != capture.Exit || s.SnapLen != 128 || s.Index != 3 || sources[2].Index != 1 {
		t.Errorf("%+v", s)
	}
}

// endless is a reader that returns a file, then twice no bytes and no error, and then the result of
// a function.
type endless struct {
	file  io.Reader
	empty int
	then  func() error
}

func (e *endless) Read(b []byte) (int, error) {
	if n, _ := e.file.Read(b); n > 0 {
		return n, nil
	}
	if e.empty++; e.empty > 2 {
		return 0, e.then()
	}
	return 0, nil
}

// While a file has no more bytes yet, outputs are flushed repeatedly. A done context ends an input
// and calls Stop, in any order, and both are a requested end. The packets of a truncated file are
// passed on before the error.
func TestInputWaits(t *testing.T) {
	t.Parallel()
	file := testfile.Numbered(3, 0, 1, "eth0")
	file = file[:len(file)-10]
	for _, canceled := range []bool{false, true} {
		var in *Input
		waiting := &endless{file: bytes.NewReader(file), then: func() error {
			if canceled {
				return fmt.Errorf("a signal ended the wait: %w", context.Canceled)
			}
			in.Stop()
			return nil
		}}
		in, err := NewInput([]InputFile{{Name: "live", In: waiting, Waits: true}}, InputOptions{})
		must(t, err)
		flushes := &flushCount{}
		accounts, err := capture.Run(context.Background(), in, flushes)
		if err != nil || accounts[0][0].Captured != 3 || flushes.n < 3 {
			t.Errorf("canceled: %v: %+v, %d flushes: %v", canceled, accounts, flushes.n, err)
		}
	}
	accounts, err := capture.Run(context.Background(), inputOf(t, InputOptions{}, file), &flushCount{})
	if err == nil || accounts[0][0].Captured != 3 {
		t.Errorf("%+v, %v", accounts, err)
	}
}

type flushCount struct {
	outputs
	n int
}

func (f *flushCount) Flush() error {
	f.n++
	return nil
}

// A file with more interfaces than a capture can have ends the reading with an error, also if a
// packet of the last interface is directly after its description.
func TestInputTooManyInterfaces(t *testing.T) {
	t.Parallel()
	link := &pcapng.Interface{LinkType: pcapng.Ethernet}
	packet := func(b []byte, of uint32) []byte {
		return pcapng.AppendPacket(b, &pcapng.Packet{Interface: of, Data: make([]byte, 60), WireLen: 60})
	}
	one := pcapng.AppendInterface(pcapng.AppendSection(nil, &pcapng.Section{}), link)
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	for range 1<<16 - 1 {
		b = pcapng.AppendInterface(b, link)
	}
	b = packet(b, 0)
	b = pcapng.AppendInterface(b, link)
	b = packet(b, 1<<16-1)
	in := inputOf(t, InputOptions{}, one, b)
	accounts, err := capture.Run(context.Background(), in, &flushCount{})
	if !errors.Is(err, errTooManyInterfaces) || accounts[0].Total().Captured != 1 {
		t.Errorf("%+v: %v", accounts[0].Total(), err)
	}
}

// An outlet in a file keeps its name, also for an output that keeps the name by its number, because
// the number of a dropped name is never used again.
func TestInputOutlets(t *testing.T) {
	t.Parallel()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	b = pcapng.AppendInterface(b, &pcapng.Interface{Name: "eth0", LinkType: pcapng.Ethernet})
	var want []string
	for i := range 6 * maxNames {
		name := "first"
		if i > 0 && i%2 == 0 {
			name = fmt.Sprint("if", i)
		}
		want = append(want, name)
		b = pcapng.AppendPacket(b, &pcapng.Packet{Data: make([]byte, 60), WireLen: 60, Verdict: uint32(capture.Redirect), Fields: pcapng.HasVerdict, Remarks: pcapng.Remarks{Outlet: []byte(name)}})
	}
	in := inputOf(t, InputOptions{}, b)
	numbers := make(map[capture.Outlet]string)
	var got []string
	buf := make([]capture.Packet, groupSize)
	for {
		n, err := in.Read(buf, nil)
		if err == io.EOF {
			break
		}
		must(t, err)
		for _, p := range buf[:n] {
			name := in.Description().OutletName(p.To)
			if before, ok := numbers[p.To]; ok && before != name {
				t.Fatalf("outlet %d is %q, and was %q", p.To, name, before)
			}
			numbers[p.To] = name
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(in.outlets.names); n > maxNames+groupSize {
		t.Errorf("%d names are remembered", n)
	}
}
