package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A program does with the packets of a capture what it did when it was attached: replay finds the
// same verdicts and bytes. Another program differs.
func TestReplayOfCapture(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	file := systest.TempFile(t)
	object, after := filepath.Join(filepath.Dir(file), "target.o"), filepath.Join(filepath.Dir(file), "after.pcapng")
	testnet.Must(t, os.WriteFile(object, testnet.TargetObject(), 0o644))
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", file, "--json")
	n := uint64(len(systest.SendRound(t, pair)))
	if s := systest.Account(t, p.Interrupt()); s.Captured != 2*n {
		t.Fatalf("summary %+v", s)
	}
	replay := func(program testnet.TargetKind, more ...string) systest.ReplayReport {
		t.Helper()
		args := append([]string{"replay", "--program", object + ":" + string(program), "--json", file}, more...)
		out, err := systest.RunIn(t, pair.Rx, systest.Command(args...))
		testnet.Must(t, err)
		return systest.LastObject[systest.ReplayReport](t, out)
	}
	if r := replay(testnet.Rewriting, "-w", after); r.Total.Packets != n || r.Compared != n || r.Different != 0 || r.AsLeft != 0 {
		t.Errorf("the same program: %+v", r)
	}
	was, is := systest.ReadTraced(t, file), systest.ReadTraced(t, after)
	for i := range is {
		if exit := was[2*i+1]; exit.Verdict != is[i].Verdict || !bytes.Equal(exit.Data, is[i].Data) {
			t.Errorf("packet %d: verdict %d and %x, replayed %d and %x", i, exit.Verdict, exit.Data, is[i].Verdict, is[i].Data)
		}
	}
	if r := replay(testnet.Hooked); r.Compared != n || r.Different == 0 || !r.Differences[0].OtherBytes {
		t.Errorf("another program: %+v", r)
	}
}

// Packets that a replayed program redirects have the name of the interface in the lines and the
// file; all others, of the same program, have none.
func TestReplayOutlet(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	index := fmt.Sprintf("0x%02x", pair.RxIndex)
	before, after := path("before.pcap"), path("after.pcapng")
	var packets bytes.Buffer
	w := pcapgo.NewWriterNanos(&packets)
	testnet.Must(t, w.WriteFileHeader(1<<16, layers.LinkTypeEthernet))
	ways := []struct {
		port uint16
		want string
	}{
		{unsaidPort, ""}, {backPort, ""}, {indexPort, "redirect to rx0"}, {devmapPort, "redirect to rx0"},
		{broadcastPort, ""}, {hashPort, "redirect to rx0"}, {unsaidPort, ""},
	}
	var want []string
	for _, way := range ways {
		frame := testnet.TxToRx().UDP(1000, way.port, []byte("payload"))
		testnet.Must(t, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame), Timestamp: time.Unix(1, 0)}, frame))
		want = append(want, way.want)
	}
	for name, content := range map[string]string{
		before: packets.String(), path("target.o"): string(testnet.TargetObject()),
		path("map.json"): `[{"key":["0","0","0","0"],"value":["` + index + `","0","0","0"]}]`,
	} {
		testnet.Must(t, os.WriteFile(name, []byte(content), 0o644))
	}
	lines, err := systest.RunIn(t, pair.Rx, systest.Command("replay", "--program", path("target.o")+":redirecting_target", "--set", "outlet="+index,
		"--map", "devices="+path("map.json"), "--map", "hashed="+path("map.json"), "-w", after, "--print", "-v", before))
	testnet.Must(t, err)
	if diff := cmp.Diff(want, commentsIn(t, after)); diff != "" {
		t.Errorf("the file: %s", diff)
	}
	if n := strings.Count(string(lines), "[REDIRECT to rx0]"); n != 3 {
		t.Errorf("%d lines have the interface: %s", n, lines)
	}
}
