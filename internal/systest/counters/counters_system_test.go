package counters_test

import (
	"fmt"
	"math"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// stats prints exactly the packets that arrived, and a scrape has the same and does not reset it.
// The rates add up to the packets: no interval is missing or counted twice. SIGINT ends it with the
// totals, and no program stays attached.
func TestStatsExact(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ action, verdict, args string }{
		{"pass", "pass", "--per-cpu --per-queue"}, {"abort", "aborted", "--per-cpu --per-queue"}, {"drop", "drop", "--listen 127.0.0.1:0"},
	} {
		t.Run(test.action, func(t *testing.T) {
			t.Parallel()
			verdict, isServed := test.verdict, strings.Contains(test.args, "--listen")
			pair := testnet.MustPair(t, testnet.PairOptions{})
			p, output := systest.Counting(t, pair, append(strings.Fields("stats -i rx0 --interval 50ms --json "+test.args), "--action", test.action)...)
			var arrived uint64
			for range 2 {
				_, n := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: 100_000})
				arrived += n
				if isServed {
					systest.WaitMetric(t, pair, p, fmt.Sprintf("xdpcap_verdict_packets_total{interface=\"rx0\",verdict=%q} %d\n", verdict, arrived))
					systest.WaitMetric(t, pair, p, fmt.Sprintf("xdpcap_verdict_bytes_total{interface=\"rx0\",verdict=%q} %s\n", verdict, strconv.FormatFloat(float64(100*arrived), 'g', -1, 64)))
				}
			}
			// On a busy machine all packets may arrive in one interval; intervals without packets
			// count as well.
			testnet.WaitFor(t, "a few intervals", func() bool { return strings.Count(output(), "\n") >= 5 })
			p.Interrupt()
			r := systest.LastObject[systest.StatsReport](t, output())
			for name, v := range r.Verdicts {
				want := arrived
				if name != verdict {
					want = 0
				}
				if v.Packets != want || v.Bytes != 100*want {
					t.Errorf("%s: %+v, want %d packets", name, v, want)
				}
			}
			var cpus uint64
			for _, c := range r.CPUs {
				cpus += c.Verdicts[verdict].Packets
			}
			if r.Total.Packets != arrived || !isServed && (r.Queues[0].Verdicts[verdict].Packets != arrived || cpus != arrived) {
				t.Errorf("queues %+v, CPUs %d, total %d of %d", r.Queues, cpus, r.Total.Packets, arrived)
			}
			sum, bits, want := 0.0, 0.0, float64(arrived)
			for _, r := range systest.Objects[systest.StatsReport](t, output()) {
				sum += r.Total.PacketsPerSecond * r.Interval
				bits += r.Total.BitsPerSecond * r.Interval
			}
			if math.Abs(sum-want) > 1 || math.Abs(bits-8*100*want) > 8*100 {
				t.Errorf("%v packets, %v bits, want %v packets of 100 bytes", sum, bits, want)
			}
			systest.CheckDetached(t, pair)
		})
	}
}

func TestCountExact(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"naive", "percpu", "ultra"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			p, output := systest.Counting(t, pair, "count", "-i", "rx0", "--variant", variant, "--interval", "100ms", "--json", "--sizes", "--flows", "5")
			_, udp := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(200, 0), Count: 100_000, Flows: 10})
			_, tcp := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.TxToRx().TCPv6(testnet.Segment{SrcPort: 1, DstPort: 2, Ack: 1}), Raw: true, Count: 100_000})
			p.Interrupt()
			r := systest.LastObject[systest.CountReport](t, output())
			got := fmt.Sprint(len(r.Protocols), r.Total.Packets, r.Total.Bytes)
			for _, p := range r.Protocols {
				got += fmt.Sprintf(" %s/%s:%d,%d", p.Family, p.Protocol, p.Packets, p.Bytes)
			}
			if want := fmt.Sprintf("2 %d %d ipv4/udp:%d,%d ipv6/tcp:%d,%d", udp+tcp, 200*udp+74*tcp, udp, 200*udp, tcp, 74*tcp); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if r.Sizes[1].Packets != tcp || r.Sizes[2].Packets != udp {
				t.Errorf("sizes %+v", r.Sizes)
			}
			if len(r.Flows) != 5 || *r.Overflow != (counters.FlowOverflow{}) {
				t.Errorf("%d flows, overflow %+v", len(r.Flows), r.Overflow)
			}
			systest.CheckDetached(t, pair)
		})
	}
}

// Received and sent packets of an interface are counted separately, in tables, objects and metrics
// alike, and no program stays attached.
func TestCountDirections(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p, output := systest.Counting(t, pair, "count", "-i", "rx0", "-Q", "inout", "--json", "--sizes", "--flows", "1", "-q", "--listen", "127.0.0.1:0")
	testnet.Send(t, pair, testnet.UDPFrame(100, 1), testnet.UDPFrame(100, 2))
	systest.SendBack(t, pair, testnet.TxToRx().Reverse().TCP(testnet.Segment{SrcPort: 1, DstPort: 2}))
	systest.WaitMetric(t, pair, p, `xdpcap_protocol_packets_total{direction="in",family="ipv4",interface="rx0",protocol="udp"} 2`+"\n")
	systest.WaitMetric(t, pair, p, `xdpcap_protocol_packets_total{direction="out",family="ipv4",interface="rx0",protocol="tcp"} 1`+"\n")
	p.Interrupt()
	got := ""
	for _, r := range systest.Objects[systest.CountReport](t, output()) {
		got += fmt.Sprint(r.Direction, " ", r.Total.Packets, " ", r.Total.Bytes, " ", r.Protocols[0].Protocol, " ", r.Flows[0].Source, "\n")
	}
	if want := "in 2 200 udp 192.0.2.1\nout 1 60 tcp 192.0.2.2\n"; got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	systest.CheckDetached(t, pair)

	// A VLAN tag in the packet's metadata is a part of the packet. When the interface is removed,
	// the counts are printed.
	p, output = systest.Counting(t, pair, "count", "-i", "rx0", "-Q", "out", "--interval", "1h")
	systest.SendOn(t, pair, systest.TagSent(t, pair, 5), testnet.TxToRx().Reverse().UDP(1000, 53, make([]byte, 22)))
	systest.InRx(t, pair, netlink.LinkDel)
	status, said := p.Wait()
	if status != 1 || !strings.Contains(said, "listening on rx0, sent, ") ||
		!strings.Contains(said, "xdpcap: rx0 was deleted or moved to another network namespace: start again when it is back\n") {
		t.Errorf("exit status %d: %s", status, said)
	}
	_, total, ok := strings.Cut(output(), "total  rx0, sent, ")
	if !ok || !strings.Contains(strings.Join(strings.Fields(total), " "), " udp 1 68 ") {
		t.Error(output())
	}
}

// Several processes each count every packet, on a foreign program and on a program that the first
// of them attached.
func TestStatsSideBySide(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for i, owner := range []string{"somebody", "xdpcap"} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(owner, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			var processes []*systest.Process
			var outputs []func() string
			run := func(args ...string) {
				p, output := systest.Counting(t, pair, append(args, "-i", "rx0", "--interval", "50ms", "--json")...)
				processes, outputs = append(processes, p), append(outputs, output)
			}
			if owner == "somebody" {
				testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
			} else {
				run("stats", "--action", "drop")
			}
			run("stats")
			run("stats")
			run("count")
			frames := testnet.Volume(200_000) // the tests of internal/meter send a million
			// Tracers can be too slow for the receive ring. A frame without room there reaches no
			// program.
			_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: frames})
			for i := len(processes) - 1; i >= 0; i-- { // the traced program is detached last
				processes[i].Interrupt()
			}
			for i, output := range outputs[:len(outputs)-1] {
				if r := systest.LastObject[systest.StatsReport](t, output()); r.Verdicts["drop"].Packets != arrived || r.Total.Bytes != 100*arrived {
					t.Errorf("reader %d: %+v, delivered %d", i, r.VerdictRates, arrived)
				}
			}
			if r := systest.LastObject[systest.CountReport](t, outputs[len(outputs)-1]()); r.Total.Packets != arrived || len(r.Protocols) != 1 {
				t.Errorf("count: %+v, delivered %d", r, arrived)
			}
		})
	}
}

// Idle connections use few file descriptors, and no scrape waits for them.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	// A process of another user could be limited only with CAP_SYS_RESOURCE.
	p, _ := systest.Counting(t, pair, "stats", "-i", "rx0", "--interval", "50ms", "--listen", "127.0.0.1:0", "--no-sandbox")
	pid := p.Cmd.Process.Pid
	descriptors := func() int {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		testnet.Must(t, err)
		return len(all)
	}
	before := descriptors()
	few := unix.Rlimit{Cur: 64, Max: 64}
	testnet.Must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil))
	url := systest.MetricsURL(t, p)
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	testnet.Must(t, pair.Rx.Do(func() error {
		for range 100 {
			conn, err := net.Dial("tcp", host)
			if err != nil {
				return err
			}
			t.Cleanup(func() { conn.Close() })
		}
		return nil
	}))
	if text := systest.Scrape(t, pair, url); !strings.Contains(text, "xdpcap_verdict_packets_total") {
		t.Error(text)
	}
	const most = 16 // connections that --listen serves at once
	testnet.WaitFor(t, "the other connections to be closed", func() bool { return descriptors() <= before+most })
	p.Interrupt()
}

// Several interfaces are counted at once, each separately.
func TestSeveralInterfaces(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddPair(t, pair, "second0", 1, 1)
	p, output := systest.Counting(t, pair, "stats", "-i", "rx0", "-i", "second0", "-q", "--json", "--listen", "127.0.0.1:0")
	systest.SendNumbered(t, pair, 3, 100)
	systest.WaitMetric(t, pair, p, `xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} 3`)
	systest.WaitMetric(t, pair, p, `xdpcap_verdict_packets_total{interface="second0",verdict="pass"} `)
	stderr := p.Interrupt()
	if strings.Count(stderr, "listening on ") != 2 {
		t.Errorf("stderr: %s", stderr)
	}
	r := systest.Objects[systest.StatsReport](t, output())
	if len(r) != 2 || r[0].Interface != "rx0" || r[0].Total.Packets != 3 || r[1].Interface != "second0" {
		t.Errorf("not one object for each interface: %+v", r)
	}
	for _, name := range []string{"rx0", "second0"} {
		receiver, err := testnet.AttachReceiver(pair.Rx, name, xdp.Pass, testnet.ReceiverOptions{})
		testnet.Must(t, err)
		t.Cleanup(func() { receiver.Close() })
	}
	for _, command := range []string{"count -Q out", "latency --kernel-stats", "monitor", "drops"} {
		p, output := systest.Counting(t, pair, append(strings.Fields(command), "-i", "rx0", "-i", "second0", "-c", "1", "--interval", "20ms")...)
		status, stderr := p.Wait()
		for _, name := range []string{"rx0", "second0"} {
			if n := len(regexp.MustCompile(`(?m)^\S+  .*\b`+name+`\b.*, over `).FindAllString(output(), -1)); status != 0 || n != 2 {
				t.Errorf("%s: exit status %d, %d tables of %s: %s%s", command, status, n, name, output(), stderr)
			}
		}
	}
}

// With --count N the command ends by itself, after N blocks and the totals, or N objects with
// --json.
func TestStatsCount(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p, output := systest.Counting(t, pair, "stats", "-i", "rx0", "--interval", "20ms", "--count", "3")
	if status, stderr := p.Wait(); status != 0 {
		t.Error(status, stderr)
	}
	if n, totals := strings.Count(output(), "VERDICT"), strings.Count(output(), "total  rx0"); n != 4 || totals != 1 || strings.Contains(output(), "\x1b") {
		t.Errorf("%d tables, %d totals: %s", n, totals, output())
	}
	p, output = systest.Counting(t, pair, "count", "-i", "rx0", "--interval", "20ms", "--count", "3", "--json")
	if status, stderr := p.Wait(); status != 0 {
		t.Error(status, stderr)
	}
	if n := strings.Count(output(), "\n"); n != 3 {
		t.Errorf("%d objects: %s", n, output())
	}
}

// An interface that is renamed is still counted. When it is removed, every command reports it long
// before the interval is over, with the counts until then.
func TestCountersInterfaceGone(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const every = "--interval=1h"
	run := map[string][]string{
		"stats": {"stats", "-i", "rx0", every, "--json"},
		"count": {"count", "-i", "rx1", every},
		"drop":  {"stats", "-i", "rx2", every, "--action", "drop", "--yes"},
		"watch": {"monitor", "-i", "rx3", every, "--json"},
	}
	for _, name := range []string{"rx1", "rx2", "rx3"} {
		systest.AddPair(t, pair, name, 1, 1)
	}
	processes, outputs := map[string]*systest.Process{}, map[string]func() string{}
	for name, args := range run {
		processes[name], outputs[name] = systest.Counting(t, pair, args...)
	}
	frames := testnet.Volume(90_000)
	// before 6.2, only an interface that is down can be renamed
	systest.InRx(t, pair, netlink.LinkSetDown)
	systest.InRx(t, pair, func(l netlink.Link) error { return netlink.LinkSetName(l, "renamed0") })
	pair.RxName = "renamed0"
	systest.InRx(t, pair, netlink.LinkSetUp)
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: frames})
	for _, name := range []string{"renamed0", "rx1", "rx2", "rx3"} {
		pair.RxName = name
		systest.InRx(t, pair, netlink.LinkDel)
	}
	for name, p := range processes {
		status, stderr := p.Wait()
		want := "xdpcap: " + run[name][2] + " was deleted or moved to another network namespace: start again when it is back\n"
		if status != 1 || !strings.HasSuffix(stderr, want) {
			t.Errorf("%s: exit status %d: %s", name, status, stderr)
		}
	}
	if r := systest.LastObject[systest.StatsReport](t, outputs["stats"]()); r.Verdicts["pass"].Packets != arrived || r.Total.Bytes != 100*arrived {
		t.Errorf("stats: %+v of %d packets", r.VerdictRates, arrived)
	}
	for name, title := range map[string]string{"count": "total  rx1, ", "drop": "total  rx2, "} {
		if !strings.HasPrefix(outputs[name](), title) {
			t.Errorf("%s: %s", name, outputs[name]())
		}
	}
	systest.LastObject[systest.MonitorReport](t, outputs["watch"]())
}
