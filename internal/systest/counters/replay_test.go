package counters_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A loaded program is measured on the packets of a capture, but only with --yes: without it, the
// program does not run.
func TestReplayMeasure(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.NewTarget(testnet.Rewriting)
	testnet.Must(t, err)
	defer target.Close()
	dropped := testnet.UDPFrame(64, 0)
	dropped[36], dropped[37] = 0, testnet.DropPort
	file := writeCapture(t, dropped, testnet.UDPFrame(1000, 1), dropped)
	id := systest.ProgramID(t, target)
	args := []string{"replay", "--measure", "--program", id, "--duration", "20ms", "--json", file}

	status, stderr := systest.Start(t, pair.Rx, nil, args...).Wait()
	systest.OneLine(t, status, stderr, "--program: rewriting_targ", "(id "+id+")", "it changes maps that others use", "none is sent", "add --yes to do it anyway")
	if got := systest.Verdicts(t, target); got != [6]uint64{} {
		t.Errorf("without --yes the program ran: %v", got)
	}
	out, err := systest.RunIn(t, pair.Rx, systest.Command(append(args, "--yes")...))
	testnet.Must(t, err)
	r := systest.LastObject[systest.ProgramReport](t, out)
	if drop, pass := r.Verdicts["drop"], r.Verdicts["pass"]; len(r.Verdicts) != 2 || drop.Packets != 2 || drop.Ns == nil || pass.Packets != 1 ||
		pass.Changed != 1 || pass.Ns != nil || r.Total.Packets != 3 || r.More {
		t.Errorf("%+v", r)
	}
	if got := systest.Verdicts(t, target); got[xdp.Drop] == 0 {
		t.Errorf("with --yes the program counted %v", got)
	}
}

// replay runs a program of an object file in its sandbox, compares with another one and with what
// is expected, and writes what the program leaves.
func TestReplay(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dropped, other := testnet.UDPFrame(64, 0), testnet.UDPFrame(1000, 1)
	dropped[36], dropped[37] = 0, testnet.DropPort
	file, dir := writeCapture(t, dropped, other, dropped), t.TempDir()
	object, rules, after := filepath.Join(dir, "target.o"), filepath.Join(dir, "rules"), filepath.Join(dir, "after.pcapng")
	for name, text := range map[string]string{object: string(testnet.TargetObject()), rules: "udp port 9, drop\nnot port 9, tx\n"} {
		testnet.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	program := object + ":" + string(testnet.Rewriting)
	out, err := os.Create(filepath.Join(dir, "out"))
	testnet.Must(t, err)
	defer out.Close()
	p := systest.Start(t, pair.Rx, out, "replay", "--program", program, "--against", object+":"+string(testnet.Hooked),
		"--expect", rules, "--ingress", pair.RxName, "-w", after, "--json", file)
	status, stderr := p.Wait()
	systest.OneLine(t, status, stderr, "--expect "+rules+", line 2: not port 9, tx: 1 of 1 packets got another verdict: first packet 2, of ", "got pass")
	text, err := os.ReadFile(out.Name())
	testnet.Must(t, err)
	r := systest.LastObject[systest.ReplayReport](t, string(text))
	if r.Total.Packets != 3 || r.Total.Changed != 1 || r.Verdicts["drop"].Packets != 2 || r.Compared != 3 || r.Different != 1 {
		t.Errorf("%+v", r)
	}
	if d := r.Differences[0]; d.Was != "pass" || d.Now != "pass" || !d.OtherBytes || len(d.Flows) != 1 {
		t.Errorf("%+v", d)
	}
	packets := systest.ReadTraced(t, after)
	want := testnet.VLAN(other, 7)
	want[6] ^= 0x40
	want = want[:len(other)+4]
	if len(packets) != 3 || packets[1].Hook != "fexit" || packets[1].Verdict != 2 || packets[0].Verdict != 1 || string(packets[1].Data) != string(want) {
		t.Errorf("%+v", packets)
	}
	if n := systest.Attached(t, pair); n != "" {
		t.Errorf("%s is attached", n)
	}
}

// writeCapture writes packets into a pcapng file with a library other than xdpcap's own.
func writeCapture(t *testing.T, packets ...[]byte) string {
	t.Helper()
	f, err := os.Create(systest.TempFile(t))
	testnet.Must(t, err)
	defer f.Close()
	w, err := pcapgo.NewNgWriter(f, layers.LinkTypeEthernet)
	testnet.Must(t, err)
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}
		testnet.Must(t, w.WritePacket(info, p))
	}
	testnet.Must(t, w.Flush())
	return f.Name()
}
