package meter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Each packet that the program drops is counted under the reason that it wrote for this packet, and
// those of reasons without room under the rest. The program that takes its place writes into a map
// of its own.
func TestReasons(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := mustReasoner(t, pair)
	a := openActions(t, pair, ActionsOptions{Verdict: xdp.Pass, ReasonMap: "reasons"})
	send := func(ports ...uint16) {
		t.Helper()
		var frames [][]byte
		for _, port := range ports {
			frames = append(frames, testnet.TxToRx().UDP(1000, port, []byte("payload")))
		}
		testnet.Send(t, pair, frames...)
	}
	send(53, testnet.BlockedPort, 53, testnet.SilentPort, testnet.BlockedPort, testnet.NoBackendPort, testnet.SilentPort, testnet.BlockedPort)
	size := uint64(len(testnet.TxToRx().UDP(1000, 53, []byte("payload"))))
	tally := func(n uint64) Tally { return Tally{n, n * size} }
	want := map[VerdictReason]Tally{
		{xdp.Drop, "REASON_BLOCKED"}:       tally(3),
		{xdp.Drop, ""}:                     tally(2),
		{xdp.Aborted, "REASON_NO_BACKEND"}: tally(1),
	}
	if diff := cmp.Diff(want, read(t, pair, a.Read).Reasons); diff != "" {
		t.Fatal(diff)
	}

	var numbers []uint16
	for port := uint16(testnet.NumberPort); port < testnet.NumberPort+maxCauses+100; port++ {
		numbers = append(numbers, port)
	}
	send(numbers...)
	send(numbers...)
	got := read(t, pair, a.Read)
	const kept = maxCauses - 2 - 3 // less the rests, and what was there
	if others, one := got.Reasons[VerdictReason{xdp.Drop, OtherReasons}], got.Reasons[VerdictReason{xdp.Drop, "1000"}]; len(got.Reasons) != 3+kept+1 ||
		others != tally(2*uint64(len(numbers)-kept)) || one != tally(2) {
		t.Errorf("%d reasons, %+v others, %+v of 1000", len(got.Reasons), others, one)
	}
	check := func() {
		t.Helper()
		var sums VerdictTallies
		got := read(t, pair, a.Read)
		for r, n := range got.Reasons {
			sums[r.Verdict].Add(n)
		}
		if all := got.Total(); sums[xdp.Drop] != all[xdp.Drop] || sums[xdp.Aborted] != all[xdp.Aborted] || all[xdp.Pass].Packets < 2 {
			t.Errorf("the reasons add up to %+v, and the verdicts are %+v", sums, all)
		}
	}
	check()

	second, err := testnet.NewTarget(testnet.Reasoning)
	must(t, err)
	defer second.Close()
	must(t, first.ReplaceBy(second))
	if notice := read(t, pair, a.Follow); !strings.Contains(notice, " instead of reasoning_target") {
		t.Errorf("%q", notice)
	}
	send(testnet.BlockedPort)
	if got := read(t, pair, a.Read).Reasons[VerdictReason{xdp.Drop, "REASON_BLOCKED"}]; got != tally(4) {
		t.Errorf("%+v after the program was replaced, want 4 packets", got)
	}
	check()
}

func mustReasoner(t *testing.T, pair *testnet.Pair) *testnet.Target {
	t.Helper()
	r, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Reasoning)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}
