package replay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
var must = testnet.Must

// objectFile writes testdata/target.c's object file, and returns its path.
func objectFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "target.o")
	must(t, os.WriteFile(name, testnet.TargetObject(), 0o600))
	return name
}

// udpTo is a UDP packet to a port, of at least 64 bytes.
func udpTo(port uint16, size int) []byte {
	p := testnet.UDPFrame(size, 0)
	p[36], p[37] = byte(port>>8), byte(port)
	return p
}

// pcap is a capture file of packets, of which each is a microsecond after the one before.
func pcap(t *testing.T, link layers.LinkType, packets ...[]byte) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	must(t, w.WriteFileHeader(1<<18, link))
	for i, p := range packets {
		must(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, int64(i)*1000), CaptureLength: len(p), Length: len(p)}, p))
	}
	return &b
}

// open opens a program of the object file.
func open(t *testing.T, kind testnet.TargetKind) *Program {
	t.Helper()
	testnet.RequireRoot(t)
	p, err := Recipe{Name: objectFile(t) + ":" + string(kind)}.Open()
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

// A left packet is one that the program has left.
type left struct {
	verdict xdp.Verdict
	data    string
	source  string
}

// replayAll runs a program on the packets of a file.
func replayAll(t *testing.T, o Options, from *bytes.Buffer) (all []left, r *Result) {
	t.Helper()
	input, err := file.NewInput([]file.InputFile{{In: from, Name: "x"}}, file.InputOptions{})
	must(t, err)
	in := NewInput(input, o)
	defer in.Close()
	d := in.Description()
	sources := capture.NewSourceList(&d)
	packets := make([]capture.Packet, 32)
	for {
		n, err := in.Read(packets, nil)
		sources.Update()
		for _, p := range packets[:n] {
			s := sources.Of(int(p.Source))
			v, ok := s.VerdictOf(&p)
			if !ok || int(p.WireLen) != len(p.Data) {
				t.Errorf("packet without a verdict, or of %d instead of %d bytes", p.WireLen, len(p.Data))
			}
			all = append(all, left{v, string(p.Data), s.Label()})
		}
		if err != nil {
			if n > 0 || err.Error() != "EOF" {
				t.Error(err)
			}
			return all, in.Result()
		}
	}
}

// The program's verdicts and bytes are those of each packet. What it cannot run on is counted.
func TestReplay(t *testing.T) {
	t.Parallel()
	p := open(t, testnet.Rewriting)
	packets := [][]byte{udpTo(9999, 64), udpTo(testnet.DropPort, 64), make([]byte, 13), udpTo(9999, 1500), udpTo(testnet.TxPort, 9000)}
	all, r := replayAll(t, Options{Program: p}, pcap(t, layers.LinkTypeEthernet, packets...))
	if len(all) != 4 || r.Total.Packets != 4 || r.NotRun != (NotRun{Short: 1}) || r.Verdicts[xdp.Pass].Packets != 2 || r.Verdicts[xdp.Drop].Packets != 1 {
		t.Fatalf("%d packets, %+v", len(all), r.NotRun)
	}
	if all[0].source != "x:"+string(testnet.Rewriting)+"@fexit" || all[0].verdict != xdp.Pass || all[1].verdict != xdp.Drop || all[3].verdict != xdp.Tx {
		t.Errorf("%v from %s, %v, %v", all[0].verdict, all[0].source, all[1].verdict, all[3].verdict)
	}
	if all[0].data == string(packets[0]) || all[1].data != string(packets[1]) || r.Total.Changed == 0 || r.Total.Bytes != 64+64+1500+9000 {
		t.Errorf("bytes: %d changed, %d bytes", r.Total.Changed, r.Total.Bytes)
	}
	if r.Compared != 0 || r.Differences != nil || p.IsShared {
		t.Errorf("%d compared: %+v", r.Compared, r.Differences)
	}
	_, r = replayAll(t, Options{Program: p}, pcap(t, layers.LinkTypeRaw, packets[0][14:]))
	if r.NotRun != (NotRun{NotEthernet: 1}) {
		t.Errorf("%+v", r.NotRun)
	}
}

// Two programs are compared packet by packet: verdicts, and the bytes of those that stay.
func TestReplayAgainst(t *testing.T) {
	t.Parallel()
	p, against := open(t, testnet.Hooked), open(t, testnet.Rewriting)
	from := pcap(t, layers.LinkTypeEthernet, udpTo(testnet.DropPort, 64), udpTo(7, 64), udpTo(7, 64), udpTo(8, 100))
	_, r := replayAll(t, Options{Program: p, Against: against}, from)
	if r.Compared != 4 || len(r.Differences) != 1 {
		t.Fatalf("%d compared, %+v", r.Compared, r.Differences)
	}
	d := r.Differences[0]
	if d.Was != xdp.Pass || d.Now != xdp.Pass || !d.OtherBytes || d.Packets != 3 || !d.First.Equal(time.Unix(1, 1000)) || len(d.Flows) != 2 || d.Flows[0].Packets != 2 || d.Flows[0].Flow.Destination.Port() != 7 {
		t.Errorf("%+v", d)
	}
}

// Verdicts that a capture has are compared. Those at an exit belong to the packet at the entry.
func TestReplayRecorded(t *testing.T) {
	t.Parallel()
	p := open(t, testnet.Hooked)
	was := capture.Source{Name: "eth0", Hook: capture.Exit, Target: capture.Program{Name: "old"}}
	in := was
	in.Hook = capture.Entry
	drop, pass := udpTo(testnet.DropPort, 64), udpTo(7, 64)
	changed := bytes.Clone(pass)
	changed[0] ^= 1
	records := []capture.Packet{
		{Source: 0, Data: pass, Facts: &capture.Facts{ID: 1}}, {Source: 1, Data: changed, Facts: &capture.Facts{ID: 1, Verdict: xdp.Pass}},
		{Source: 0, Data: drop, Facts: &capture.Facts{ID: 2}}, {Source: 1, Data: drop, Facts: &capture.Facts{ID: 2, Verdict: xdp.Pass}},
		{Source: 1, Data: pass, Facts: &capture.Facts{ID: 3, Verdict: xdp.Tx}}, // its entry is not in the file
	}
	all, r := replayAll(t, Options{Program: p}, recorded(t, records, in, was))
	if len(all) != 3 || r.AsLeft != 1 || r.Compared != 3 || len(r.Differences) != 3 {
		t.Fatalf("%d packets, %d as left, %d compared: %+v", len(all), r.AsLeft, r.Compared, r.Differences)
	}
	for i, want := range []differenceKey{{xdp.Pass, xdp.Pass, true}, {xdp.Pass, xdp.Drop, false}, {xdp.Tx, xdp.Pass, false}} {
		if d := r.Differences[i]; (differenceKey{d.Was, d.Now, d.OtherBytes}) != want || d.Packets != 1 {
			t.Errorf("%+v, want %v", d, want)
		}
	}
}

// recorded is a capture file of packets from these sources.
func recorded(t *testing.T, packets []capture.Packet, from ...capture.Source) *bytes.Buffer {
	t.Helper()
	for i := range packets {
		packets[i].WireLen, packets[i].Time = uint32(len(packets[i].Data)), int64(i)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "x.pcapng"))
	must(t, err)
	out, err := file.New(f, file.Options{})
	must(t, err)
	must(t, out.Begin(capture.Description{Sources: from}))
	must(t, out.Write(packets))
	_, err = out.End(make(capture.Accounts, len(from)))
	must(t, err)
	text, err := os.ReadFile(f.Name())
	must(t, err)
	return bytes.NewBuffer(text)
}

// A capture at the sender has the packets that the program would receive as sent ones.
func TestReplaySent(t *testing.T) {
	t.Parallel()
	p := open(t, testnet.Hooked)
	drop, pass := udpTo(testnet.DropPort, 64), udpTo(7, 64)
	for direction, want := range map[capture.Direction]xdp.Verdict{capture.In: xdp.Pass, capture.Out: xdp.Drop} {
		packets := []capture.Packet{{Source: 0, Data: pass, Facts: &capture.Facts{}}, {Source: 1, Data: drop, Facts: &capture.Facts{}}}
		all, r := replayAll(t, Options{Program: p, Direction: direction},
			recorded(t, packets, capture.Source{Name: "eth0", Hook: capture.XDP}, capture.Source{Name: "eth0", Hook: capture.Egress}))
		if len(all) != 1 || all[0].verdict != want || r.NotRun != (NotRun{NotReceived: 1}) {
			t.Errorf("%v: %+v, %+v", direction, all, r.NotRun)
		}
	}
}

// A packet with a verdict that is not expected, and a line that no packet matches, are failures.
func TestExpect(t *testing.T) {
	t.Parallel()
	p := open(t, testnet.Hooked)
	e, err := ParseExpectations("# what the firewall is for\n\nudp port 9, drop\nudp and not port 9,XDP_TX\ntcp, pass\n", "rules", filter.Options{})
	must(t, err)
	replayAll(t, Options{Program: p, Expect: e}, pcap(t, layers.LinkTypeEthernet, udpTo(testnet.DropPort, 64), udpTo(7, 64)))
	var failed []string
	for _, one := range e.Failed() {
		failed = append(failed, one.String())
	}
	want := []string{
		fmt.Sprintf("line 4: udp and not port 9, tx: 1 of 1 packets got another verdict: first packet 2, of %s, got pass", time.Unix(1, 1000).Format("15:04:05.000000")),
		"line 5: tcp, pass: no packet matches the filter",
	}
	if strings.Join(failed, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", failed)
	}
	for text, want := range map[string]string{
		"# nothing\n":        "rules expects nothing",
		"udp":                "line 1 of rules: \"udp\": must be a filter, a comma and a verdict",
		"\nudp prot 1, pass": "line 2 of rules: ",
		"udp, accept":        "line 1 of rules: verdict \"accept\"",
	} {
		if _, err := ParseExpectations(text, "rules", filter.Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Maps are filled from what bpftool prints, and constants are set, before the first packet. A map
// that is pinned takes the place of the program's own.
func TestRecipe(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	object := objectFile(t)
	for _, test := range []struct {
		recipe Recipe
		fails  string
	}{
		{Recipe{Name: object}, "which program of " + object + "? " + object + ":NAME, with one of "},
		{Recipe{Name: object + ":no"}, "which program of "},
		{Recipe{Name: "/no/such.o"}, "open /no/such.o: no such file"},
		{Recipe{Name: "replay_test.go:x/"}, "replay_test.go"},
		{Recipe{Name: "no such program"}, `no XDP program "no such program" is loaded`},
		{Recipe{Name: "17", Constants: []string{"x=1"}}, "17 is loaded already, with its maps and constants"},
		{Recipe{Name: object + ":" + string(testnet.Hooked), Constants: []string{"no=1"}}, "no=1: the program has no global variable no"},
		{Recipe{Name: object + ":" + string(testnet.Hooked), Maps: []string{"no=x"}}, "no=x: the program has no map no, but "},
		{Recipe{Name: object + ":" + string(testnet.Hooked), Pins: t.TempDir()}, "has none of the program's maps: "},
	} {
		if p, err := test.recipe.Open(); err == nil || !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%+v: %v, want %q", test.recipe, err, test.fails)
			if err == nil {
				p.Close()
			}
		}
	}
	dump := filepath.Join(t.TempDir(), "dump.json")
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 2, MaxEntries: 4})
	must(t, err)
	defer m.Close()
	must(t, os.WriteFile(dump, []byte(`[{"key":["0x01","0x00","0x00","0x00"],"value":["0x0a","0xff"],"formatted":{"key":1}}]`), 0o600))
	must(t, fill(m, dump))
	var value [2]byte
	must(t, m.Lookup(uint32(1), &value))
	if value != [2]byte{0x0a, 0xff} {
		t.Errorf("%x", value)
	}
	must(t, os.WriteFile(dump, []byte(`[{"key":["0x01","0x0","0x0"],"value":["0x0a","0xff"]}]`), 0o600))
	if err := fill(m, dump); err == nil || !strings.HasPrefix(err.Error(), "entry 1 of 1: ") {
		t.Error(err)
	}
	for text, want := range map[string]string{"1": "\x01\x00", "-2": "\xfe\xff", "0x1234": "\x34\x12", "true": "\x01\x00"} {
		if b, err := number(text, 2); err != nil || string(b) != want {
			t.Errorf("%s: %x, %v", text, b, err)
		}
	}
	for _, text := range []string{"70000", "x", ""} {
		if _, err := number(text, 2); err == nil {
			t.Errorf("%q is a number of 2 bytes", text)
		}
	}
}
