package counters_test

import (
	"os"
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
func TestBenchProgramCommand(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.NewTarget(testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	dropped := testnet.UDPFrame(64, 0)
	dropped[36], dropped[37] = 0, testnet.DropPort
	file := writeCapture(t, dropped, testnet.UDPFrame(1000, 1), dropped)
	id := systest.ProgramID(t, target)
	args := []string{"bench", "--program", id, "--packets", file, "--duration", "20ms", "--json"}

	status, stderr := systest.Start(t, pair.Rx, nil, args...).Wait()
	systest.OneLine(t, status, stderr, "--program runs rewriting_targ", "(id "+id+")", "the program's maps change", "none is sent", "add --yes to do it anyway")
	if got := systest.Verdicts(t, target); got != [6]uint64{} {
		t.Errorf("without --yes the program ran: %v", got)
	}
	out, err := systest.RunIn(t, pair.Rx, systest.Command(append(args, "--yes")...))
	if err != nil {
		t.Fatal(err)
	}
	r := systest.LastObject[systest.ProgramReport](t, out)
	if drop, pass := r.Verdicts["drop"], r.Verdicts["pass"]; len(r.Verdicts) != 2 || drop.Packets != 2 || drop.Ns == nil || pass.Packets != 1 ||
		pass.Changed != 1 || pass.Ns != nil || r.Total.Packets != 3 || r.More {
		t.Errorf("%+v", r)
	}
	if got := systest.Verdicts(t, target); got[xdp.Drop] == 0 {
		t.Errorf("with --yes the program counted %v", got)
	}
}

// writeCapture writes packets into a pcapng file with a library other than xdpcap's own.
func writeCapture(t *testing.T, packets ...[]byte) string {
	t.Helper()
	f, err := os.Create(systest.TempFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := pcapgo.NewNgWriter(f, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}
		if err := w.WritePacket(info, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
