package capture

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// storedFiles is what an Input in another module says of the files that it reads.
type storedFiles struct{ many bool }

func (f storedFiles) AppendHeader(b []byte, application string) []byte {
	return append(b, "the header of "+application...)
}

func (f storedFiles) IsUnlimited() bool { return f.many }

// storedComments is a block with comments.
type storedComments []string

func (c storedComments) Comments() []string { return c }

// Methods and an Encoder take from an Input of any module what its files have of a packet, and
// nothing else.
func TestStored(t *testing.T) {
	t.Parallel()
	d := Description{Sources: []Source{ParseLabel("eth0:prog@fexit")}, Files: storedFiles{}}
	d.Sources[0].File = "a.pcapng"
	e := NewEncoder(&d, EncoderOptions{Application: "me"})
	if got := string(e.Header(nil)); got != "the header of me" || d.IsLive() {
		t.Errorf("the header is %q", got)
	}
	facts := Facts{Verdict: Drop, Queue: 3, ID: 4, Hash: 5, HashKind: ToeplitzHash, WireLen: 60, Time: 6}
	for _, test := range []struct {
		stored *Stored
		want   pcapng.Packet
	}{
		{&Stored{}, pcapng.Packet{Fields: pcapng.HasHash}},
		{&Stored{HasVerdict: true}, pcapng.Packet{Verdict: uint32(Drop), Fields: pcapng.HasHash | pcapng.HasVerdict}},
		{&Stored{HasQueue: true, Flags: pcapng.Outbound}, pcapng.Packet{Queue: 3, Flags: pcapng.Outbound, Fields: pcapng.HasHash | pcapng.HasQueue}},
		{&Stored{HasID: true, NoTime: true, Flags: pcapng.Inbound, Block: storedComments{"one"}},
			pcapng.Packet{ID: 4, Flags: pcapng.Inbound, Fields: pcapng.HasHash | pcapng.HasID}},
	} {
		p := Packet{Facts: &facts, Data: make([]byte, 60), Stored: test.stored}
		s := &d.Sources[0]
		_, verdict := s.VerdictOf(&p)
		_, queue := s.QueueOf(&p)
		_, id := s.IDOf(&p)
		if verdict != test.stored.HasVerdict || queue != test.stored.HasQueue || id != test.stored.HasID || p.HasTime() == test.stored.NoTime {
			t.Errorf("%+v: verdict %v, queue %v, id %v, time %v", test.stored, verdict, queue, id, p.HasTime())
		}
		direction, known := s.DirectionOf(&p)
		if known != (test.stored.Flags != 0) || known && (direction == Out) != (test.stored.Flags == pcapng.Outbound) {
			t.Errorf("%+v: direction %v, %v", test.stored, direction, known)
		}
		block, err := pcapng.ParseBlock(e.Append(nil, &p), false)
		must(t, err)
		var got pcapng.Packet
		must(t, pcapng.ParsePacket(block, 0, &got))
		test.want.Time, test.want.WireLen, test.want.Data, test.want.Hash = 6, 60, p.Data, 5
		same(t, test.want, got, "%+v", test.stored)
		same(t, p.Comments(), block.Comments(), "%+v", test.stored)
	}
}

// described is the description of a source as it stands in a file.
func described(t *testing.T, d Description, s *Source) pcapng.Interface {
	t.Helper()
	block, err := pcapng.ParseBlock(NewEncoder(&d, EncoderOptions{}).Describe(nil, s), false)
	must(t, err)
	i, _ := pcapng.ParseInterface(block)
	return i
}

// The snapshot length of an interface is in the file of one input file only.
func TestStoredSnapLen(t *testing.T) {
	t.Parallel()
	for many, want := range map[bool]uint32{false: 96, true: 0} {
		src := Source{Name: "eth0", File: "a", SnapLen: 96}
		src.SetLinkType(113)
		if i := described(t, Description{Files: storedFiles{many}}, &src); i.SnapLen != want || i.LinkType != 113 || src.LinkType() != 113 || src.IsEthernet() {
			t.Errorf("several files: %v: %+v", many, i)
		}
	}
}

// The description of an interface names its pod, and it is found there again.
func TestPodsInDescriptions(t *testing.T) {
	t.Parallel()
	web := Pod{Namespace: "default", Name: "web-1"}
	for _, test := range []struct {
		source Source
		want   string
		pod    Pod
	}{
		{Source{Name: "eth0"}, "", Pod{}},
		{Source{Name: "eth0", Alias: "uplink"}, "uplink", Pod{}},
		{Source{Name: "eth0", Pod: web}, "pod default/web-1", web},
		{Source{Name: "eth0", Alias: "a, pod b c/d", Pod: web, Hook: Egress}, "a, pod b c/d, pod default/web-1, egress", web},
		{Source{Name: "eth0", Alias: "pod of mine", Hook: Egress}, "pod of mine, egress", Pod{}},
		{Source{Name: "eth0", File: "a.pcapng", Alias: "uplink"}, "uplink", Pod{}},
		{Source{Name: "eth0", File: "a.pcapng", Pod: web, Hook: Egress}, "pod default/web-1", web},
	} {
		i := described(t, Description{}, &test.source)
		if got := ParsePod(i.Description); i.Description != test.want || got != test.pod {
			t.Errorf("%+v: %q, pod %v", test.source, i.Description, got)
		}
	}
	for _, text := range []string{"pod", "pod /", "pod a/", "pod /b", "pod a b/c", "a/b", "podium a/b"} {
		if got := ParsePod(text); got != (Pod{}) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Names of addresses stand in the header of a live capture, and in none that is made of files.
func TestNamesInHeader(t *testing.T) {
	t.Parallel()
	names := []Name{{netip.MustParseAddr("10.1.0.2"), "default/web-1"}}
	d := Description{Sources: []Source{{Name: "eth0"}}, Options: Options{Names: names}}
	block := pcapng.AppendNames(nil, []pcapng.Name{pcapng.Name(names[0])})
	if header := NewEncoder(&d, EncoderOptions{}).Header(nil); !bytes.HasSuffix(header, block) {
		t.Errorf("the header ends otherwise: % x", header)
	}
	d.Files = storedFiles{}
	if header := NewEncoder(&d, EncoderOptions{}).Header(nil); bytes.Contains(header, block) {
		t.Errorf("the header for packets of files has names: % x", header)
	}
}
