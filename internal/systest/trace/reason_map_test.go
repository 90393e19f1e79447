package trace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// reasoned has the ports of packets for a Reasoning target, with their reasons in lines: only a
// dropped packet has a reason, also after a packet that had one.
var reasoned = []struct {
	port          uint16
	verdict, name string
}{
	{53, "pass", ""}, {testnet.BlockedPort, "drop", "REASON_BLOCKED"}, {53, "pass", ""}, {testnet.NoBackendPort, "aborted", "REASON_NO_BACKEND"},
	{testnet.NumberPort + 7, "drop", "1007"}, {testnet.SilentPort, "drop", ""}, {testnet.BlockedPort, "drop", "REASON_BLOCKED"},
}

func sendReasoned(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	var frames [][]byte
	for _, r := range reasoned {
		frames = append(frames, testnet.TxToRx().UDP(1000, r.port, []byte("payload")))
	}
	testnet.Send(t, pair, frames...)
}

// A program's reason for a dropped packet is in lines, in JSON and in the file, also in the
// sandbox. TestReadJSON and TestReadPrintsAsLive read such a file.
func TestReasonMap(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Reasoning)
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			file, objects := filepath.Join(dir, "out.pcapng"), filepath.Join(dir, "out.json")
			lines := systest.NewPipe(t)
			p := systest.Listening(t, pair.Rx, lines.In, "-i", pair.RxName, "--reason-map", "reasons", "-w", file, "-w", objects, "--print", "--json", "--transport", transport, "--first", "1000", "udp")
			sendReasoned(t, pair)
			if s := systest.Account(t, p.Interrupt()); s.Captured != uint64(len(reasoned)) {
				t.Fatalf("summary %+v", s)
			}
			texts, described := slices.Collect(strings.Lines(lines.Read(t))), systest.Objects[systest.PacketKeys](t, systest.Contents(t, objects))
			if len(texts) != len(reasoned) || len(described) != len(reasoned) {
				t.Fatalf("%s\n%s", lines.Read(t), systest.Contents(t, objects))
			}
			for i, r := range reasoned {
				words := strings.TrimSpace(strings.ToUpper(r.verdict) + " " + r.name)
				if want := " rx0:reasoning_target@exit[" + words + "] IP "; !strings.Contains(texts[i], want) {
					t.Errorf("%s, want %s", texts[i], want)
				}
				if l := described[i]; l.Verdict != r.verdict || l.Reason != r.name || l.Location != "" {
					t.Errorf("%+v, want %v", l, r)
				}
			}
			for i, p := range systest.ReadTraced(t, file) {
				said := slices.DeleteFunc(p.Comments, func(c string) bool { return !strings.HasPrefix(c, "the program's reason: ") })
				var want []string
				if name := reasoned[i].name; name != "" {
					want = []string{"the program's reason: " + name}
				}
				if !slices.Equal(said, want) {
					t.Errorf("comments %q, want %q", said, want)
				}
			}
		})
	}
}

// --reason keeps the packets that the program drops for these reasons of its own: their exits, both
// images, or the entries, which then have the reason.
func TestReasonsChosen(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Reasoning)
	for i, test := range []struct {
		args string
		want []string // hooks and reasons
	}{
		{"--reason REASON_BLOCKED", []string{"fexit REASON_BLOCKED", "fexit REASON_BLOCKED"}},
		{"--reason reason_no_backend,1007 --verdict drop", []string{"fexit 1007"}},
		{"--reason 1007 --filter-at exit udp port 1007", []string{"fexit 1007"}},
		{"--rx-capture entry,exit --reason REASON_NO_BACKEND,1007", []string{"fentry", "fexit REASON_NO_BACKEND", "fentry", "fexit 1007"}},
		{"--rx-capture entry --reason REASON_BLOCKED --first 1", []string{"fentry REASON_BLOCKED"}},
		{"--rx-capture entry --verdict aborted", []string{"fentry REASON_NO_BACKEND"}},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.args, func(t *testing.T) {
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", pair.RxName, "--reason-map", "reasons", "-w", file, "--json"}, strings.Fields(test.args)...)...)
			sendReasoned(t, pair)
			s := systest.Account(t, p.Interrupt())
			var got []string
			for _, p := range systest.ReadTraced(t, file) {
				text := p.Hook
				for _, comment := range p.Comments {
					if reason, ok := strings.CutPrefix(comment, "the program's reason: "); ok {
						text += " " + reason
					}
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if n := uint64(len(s.Interfaces) * len(reasoned)); s.Seen != n || s.Captured != uint64(len(test.want)) || s.Lost != 0 || s.Undecided != 0 {
				t.Errorf("summary %+v", s.AccountKeys)
			}
		})
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "--reason-map", "reasons", "--reason", "BLOCKED", "-w", os.DevNull).Wait()
	if status == 0 || !strings.Contains(stderr, `reason "BLOCKED": must be a number, or one of the names of`) || !strings.Contains(stderr, "REASON_NONE, REASON_BLOCKED, REASON_NO_BACKEND") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// stats counts by reason: in the table, in the object and for Prometheus. A pin and an id can name
// the map, too.
func TestStatsByReason(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r := testnet.MustTarget(t, pair, testnet.Reasoning)
	info, err := r.Reasons().Info()
	testnet.Must(t, err)
	id, _ := info.ID()
	pin := systest.PinHook(t, r.Reasons())
	p, output := systest.Counting(t, pair, "stats", "-i", pair.RxName, "--by", "reason", "--reason-map", fmt.Sprint(id), "--json", "--interval", "1h")
	table, printed := systest.Counting(t, pair, "stats", "-i", pair.RxName, "--reason-map", pin, "--interval", "1h", "--listen", "127.0.0.1:0")
	sendReasoned(t, pair)
	scraped := systest.Scrape(t, pair, systest.MetricsURL(t, table))
	p.Interrupt()
	table.Interrupt()

	type row struct {
		Reason, Verdict string
		Packets         uint64
	}
	want := []row{{"REASON_BLOCKED", "drop", 2}, {"none", "drop", 1}, {"1007", "drop", 1}, {"REASON_NO_BACKEND", "aborted", 1}}
	var got []row
	for _, r := range systest.LastObject[systest.StatsReport](t, output()).Reasons {
		got = append(got, row{r.Reason, r.Verdict, r.Packets})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, r := range want {
		if series := fmt.Sprintf("xdpcap_reason_packets_total{interface=\"rx0\",reason=%q,verdict=%q} %d\n", r.Reason, r.Verdict, r.Packets); !strings.Contains(scraped, series) {
			t.Errorf("no %s in %s", series, scraped)
		}
		if fields := []string{r.Reason, r.Verdict, fmt.Sprint(r.Packets)}; !slices.ContainsFunc(strings.Split(printed(), "\n"), func(line string) bool {
			return slices.Equal(strings.Fields(line)[:min(3, len(strings.Fields(line)))], fields)
		}) {
			t.Errorf("no %v in %s", fields, printed())
		}
	}
}

// With --drops, packets that the program drops have the program's reason, and packets that the
// stack drops the kernel's.
func TestReasonMapOfDrops(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	testnet.MustTarget(t, pair, testnet.Reasoning)
	objects := filepath.Join(t.TempDir(), "out.json")
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--drops", "--reason-map", "reasons", "-w", objects, "--json", "udp")
	systest.SendClosed(t, pair, 99, testnet.BlockedPort, 100, testnet.NoBackendPort)
	if s := systest.Account(t, p.Interrupt()); s.Captured != 4 {
		t.Errorf("summary %+v", s)
	}
	got := make(map[string]int)
	for _, p := range systest.Objects[systest.PacketKeys](t, systest.Contents(t, objects)) {
		got[fmt.Sprintf("{%s %s %s %s}", p.Hook, p.Verdict, p.Reason, p.Location)]++
	}
	want := map[string]int{"{exit drop REASON_BLOCKED }": 1, "{exit aborted REASON_NO_BACKEND }": 1, "{drop  NO_SOCKET " + testnet.NoSocketFunction() + "}": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A mistake is one line, and no program stays attached.
func TestReasonMapMistakes(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Reasoning)
	for args, want := range map[string]string{
		"--reason-map nosuch":                               "xdpcap: no BPF map is named nosuch: XDP program reasoning_target (id ",
		"--reason-map 4000000000":                           "xdpcap: there is no BPF map with the id 4000000000\n",
		"--reason-map /no/such/map":                         "xdpcap: open the map /no/such/map: it does not exist: ",
		"stats --by reason --reason-map nosuch":             "xdpcap: no BPF map is named nosuch: XDP program reasoning_target (id ",
		"stats --by verdict --reason-map nosuch --action x": "xdpcap: --action ",
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, append(strings.Fields(args), "-i", pair.RxName)...).Wait()
		systest.OneLine(t, status, stderr, want)
	}
}

// Flags that contradict --reason-map are refused before a program is attached.
func TestReasonMapFlags(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.CheckRefused(t, pair, map[string]string{
		"-i rx0 --reason-map=":                             `xdpcap: --reason-map "": must not be empty; `,
		"-i rx0 --reason-map reasons":                      "xdpcap: rx0 runs no XDP program that could be traced: omit --reason-map to capture at its XDP hook, or see where a program runs: xdpcap interfaces\n",
		"-i rx0 --reason-map reasons --rx-capture entry":   "xdpcap: --reason-map: only packets that leave a program have its reason: add --rx-capture exit\n",
		"--hook /sys/fs/bpf/none --reason-map reasons":     "xdpcap: --reason-map and --hook: a hook map has no reasons: trace the program that calls it, with -i\n",
		"-i rx0 --reason-map reasons -Q out":               "xdpcap: -Q out and --reason-map: this flag is for received packets: ",
		"-i rx0 --reason-map reasons --drops --reason XDP": "xdpcap: --reason and --reason-map: --reason keeps no packet that an XDP program drops: omit one of them\n",
		"-i rx0 --reason-map reasons --drops":              "xdpcap: rx0 runs no XDP program, and only a program gives reasons: omit --reason-map\n",
		"stats -i rx0 --by reason":                         "xdpcap: --by reason: name the map into which the program writes its reasons: add --reason-map\n",
		"stats -i rx0 --by cause":                          "xdpcap: --by cause: must be verdict or reason\n",
		"stats -i rx0 --reason-map reasons":                "xdpcap: rx0 runs no XDP program, and only a program gives reasons: omit --reason-map\n",
		"stats --listen 127.0.0.1:0 --reason-map reasons":  "xdpcap: --reason-map needs a named interface: add -i rx0\n",
	})
}
