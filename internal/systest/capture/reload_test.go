package capture_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// SIGHUP lets a capture go on with what the file of the filter says then. A mistake there changes
// nothing. The report and the file have the packets by filter.
func TestReloadFilter(t *testing.T) {
	t.Parallel()
	dir := reloadDirectory(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	filter, file := filepath.Join(dir, "filter"), systest.TempFile(t)
	writeSet(t, filter, "less 100 # short ones\n")
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json", "-F", filter, "--reload-filter")
	sent := uint64(0)
	send := func() {
		t.Helper()
		for _, size := range []int{64, 200} {
			sent++
			testnet.Send(t, pair, testnet.UDPFrame(size, sent))
		}
		systest.CountsOf(t, p, sent) // the filter has decided about them
	}
	reload := func(expression, said string) {
		t.Helper()
		writeSet(t, filter, expression)
		p.Cmd.Process.Signal(syscall.SIGHUP)
		systest.WaitStderr(t, p, said)
	}
	send() // 1, 2
	reload("greater 100", `read `+filter+` again: the filter is "greater 100" from now on`)
	send() // 3, 4
	reload("greater", "the filter stays as it was: replace the filter by \"greater\"")
	reload("", "the filter stays as it was: -F: "+filter+" is empty")
	send() // 5, 6
	reload("# all", "the filter is every packet from now on")
	reload("# all\n", "the filter is every packet, as before")
	send() // 7, 8
	stderr := p.Interrupt()
	if diff := cmp.Diff([]uint64{1, 4, 6, 7, 8}, sequences(t, file)); diff != "" {
		t.Errorf("captured: %s", diff)
	}
	type counts struct {
		filter         string
		seen, captured uint64
		gone           bool
	}
	want := []counts{{"less 100", 2, 1, true}, {"greater 100", 4, 2, true}, {"", 2, 2, false}}
	var reported []counts
	for _, src := range systest.Account(t, stderr).Interfaces {
		reported = append(reported, counts{src.Filter, src.Seen, src.Captured, src.Gone})
	}
	if diff := cmp.Diff(want, reported, cmp.AllowUnexported(counts{})); diff != "" {
		t.Errorf("reported: %s", diff)
	}
	var stats []counts
	for i, row := range systest.StatsOf(t, file).Interfaces {
		stats = append(stats, counts{row.Filter, *row.Account.Seen, row.Packets, want[i].gone})
	}
	if diff := cmp.Diff(want, stats, cmp.AllowUnexported(counts{})); diff != "" {
		t.Errorf("read --stats: %s", diff)
	}
	_, r := systest.ReadFile(t, file)
	for i, one := range want {
		if about, err := r.Interface(i); err != nil || about.Filter != one.filter || about.Statistics.PacketsReceived != one.seen {
			t.Errorf("interface %d of the file: %+v, %v, want %+v", i, about, err, one)
		}
	}
}
