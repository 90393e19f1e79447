package commandline_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	status, stdout, stderr := systest.Probe(t, pair, "-i", pair.RxName)
	if status != 0 || stderr != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	for line := range strings.Lines(stdout) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	_, stdout, _ = systest.Probe(t, pair, "-i", pair.RxName, "--json")
	free := decodeProbe(t, stdout)
	if !free.CanCapture || free.Interface.Program != nil || free.Features["capture_generic"].Answer != "yes" ||
		free.Features["capture_sent"].Answer != "yes" || !strings.HasPrefix(free.Features["capture_sent"].Reason, "by ") {
		t.Errorf("without a program: %s", stdout)
	}
	for _, stage := range []string{"card", "xdp", "stack", "af_xdp", "egress"} {
		if c := free.Drops[stage]; c.Answer != "yes" || c.Reason == "" {
			t.Errorf("lost packets, %s: %+v", stage, c)
		}
	}
	systest.CheckDetached(t, pair)

	v, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Pass, testnet.ReceiverOptions{Count: true})
	testnet.Must(t, err)
	defer v.Close()
	status, stdout, stderr = systest.Probe(t, pair, "-i", pair.RxName, "--json")
	busy := decodeProbe(t, stdout)
	if busy.Interface.Program == nil || busy.Interface.Program.Mode != "native" || busy.Interface.Native.Answer != "yes" ||
		busy.Features["capture_native"].Answer != "no" || busy.Features["capture_generic"].Answer != "no" {
		t.Errorf("with a program: %s", stdout)
	}
	loads := testnet.ProbeFentry() == nil
	if (status == 0) != loads || busy.CanCapture != loads || (busy.Interface.Program.Traceable.Answer == "yes") != loads {
		t.Errorf("fentry loads: %v, but exit status %d, %s", loads, status, stdout)
	}
	if !loads && strings.Count(stderr, "\n") != 1 {
		t.Errorf("not one line: %q", stderr)
	}
	if systest.Attached(t, pair) == "" {
		t.Error("the program is gone")
	}
}

func decodeProbe(t *testing.T, s string) (p systest.ProbeJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return p
}
