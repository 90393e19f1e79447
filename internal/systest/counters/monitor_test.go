package counters_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The real command counts what happens on its interface, and SIGINT prints the totals.
func TestMonitor(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	receiver := testnet.MustReceiver(t, pair, xdp.Aborted, testnet.ReceiverOptions{Count: true})
	id, err := receiver.ID()
	if err != nil {
		t.Fatal(err)
	}
	tables, objects := systest.NewPipe(t), systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, tables.In, "monitor", "-i", pair.RxName, "-v", "--interval", "100ms")
	q := systest.Listening(t, pair.Rx, objects.In, "monitor", "--program", fmt.Sprint(id), "-i", pair.RxName, "--json")
	const sent = 50
	testnet.Send(t, pair, slices.Repeat([][]byte{testnet.UDPFrame(100, 0)}, sent)...)
	if stderr := p.Interrupt(); !strings.Contains(stderr, "listening on xdp tracepoints of rx0") {
		t.Error(stderr)
	}
	q.Interrupt()
	_, totals, ok := strings.Cut(tables.Read(t), "total  xdp tracepoints of rx0, over ")
	if !ok || !strings.Contains(totals, "XDP_ABORTED rx0 [50]") {
		t.Errorf("totals %q", totals)
	}
	var last systest.MonitorReport
	lines := strings.Split(strings.TrimSpace(objects.Read(t)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if len(last.Events) != 1 || last.Events[0].Count != sent || last.Events[0].Drops != sent || last.Interface != "rx0" || last.Program == 0 {
		t.Errorf("%+v", last)
	}
}

// --record prints so many events and ends by itself, or without a number goes on until it is
// stopped.
func TestMonitorRecord(t *testing.T) {
	t.Parallel()
	testnet.LeaveTo(t, "6.1")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustReceiver(t, pair, xdp.Aborted, testnet.ReceiverOptions{})
	lines, objects, none := systest.NewPipe(t), systest.NewPipe(t), systest.NewPipe(t)
	text := systest.Listening(t, pair.Rx, lines.In, "monitor", "-i", pair.RxName, "--record", "3")
	asJSON := systest.Listening(t, pair.Rx, objects.In, "monitor", "-i", pair.RxName, "--record", "3", "--json")
	more := systest.Listening(t, pair.Rx, none.In, "monitor", "--record", "-i", pair.RxName)
	systest.StopProcess(t, more) // what it has not printed when it is interrupted comes, too
	var frames [][]byte
	for i := range uint64(5) {
		frames = append(frames, testnet.UDPFrame(100, i))
	}
	testnet.Send(t, pair, frames...)
	more.Cmd.Process.Signal(os.Interrupt)
	systest.ContinueProcess(t, more)
	for _, p := range []*systest.Process{text, asJSON} {
		if status, stderr := p.Wait(); status != 0 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit status %d: %s", status, stderr)
		}
	}
	if status, stderr := more.Wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if n := strings.Count(none.Read(t), "\n"); n != 5 {
		t.Errorf("%d lines of 5 events", n)
	}
	got := strings.Split(strings.TrimSpace(lines.Read(t)), "\n")
	if len(got) != 3 || !strings.Contains(got[0], " xdp_exception XDP_ABORTED rx0 verdict 0 program ") {
		t.Errorf("%q", got)
	}
	d := json.NewDecoder(strings.NewReader(objects.Read(t)))
	d.DisallowUnknownFields()
	for range 3 {
		var l systest.RecordLine
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if time.Since(l.Time).Abs() > testnet.Patience || l.Program == 0 || l.Verdict == nil || *l.Verdict != 0 {
			t.Errorf("%+v", l)
		}
		l.Time, l.CPU, l.Program, l.Verdict = time.Time{}, 0, 0, nil
		want := systest.RecordLine{EventCase: EventCase{Event: "xdp_exception", Reason: "aborted", From: "rx0"}, Drops: 1}
		if diff := cmp.Diff(want, l, cmp.AllowUnexported(systest.RecordLine{})); diff != "" {
			t.Error(diff)
		}
	}
}

// Each mistake is one line and exit status 1.
func TestMonitorErrors(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for args, want := range map[string]string{
		"-i nosuch":                      `interface "nosuch" does not exist; there are: lo, rx0`,
		"--program nosuch":               `xdpcap: no XDP program "nosuch" is loaded: see xdpcap interfaces, or bpftool prog`,
		"--program 4294967295":           "no XDP program has the id 4294967295",
		"--record 0":                     "--record 0: must be a whole number of at least 1, or be omitted",
		"--record many":                  "--record many: must be a whole number of at least 1, or be omitted",
		"--record=2 3":                   `monitor takes no argument "3"`,
		"--record 1 --interval 2s":       "--record prints single events, and --interval is about counters",
		"--record 1 --listen 127.0.0.1:": "--listen is about counters",
		"--interval 1ms":                 "--interval 1ms: must be at least",
		"extra":                          `"extra"`,
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, append([]string{"monitor"}, strings.Fields(args)...)...).Wait()
		if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d: %s", args, status, stderr)
		}
	}
}
