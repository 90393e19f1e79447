package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/sflow"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Other programs read of flow samples, counters and discarded packets what was sent: goflow2 and
// sfacctd as they receive it, tshark what a collector of this test has received.
func TestSFlowCollectors(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := listenSFlow(t, pair.Rx)
	collectors := []string{"-w", "sflow://" + l.address}
	goflow2 := startGoflow2(t, pair, 7001)
	sfacctd := startSfacctd(t, pair, 7002)
	collectors = append(collectors, "-w", "sflow://127.0.0.1:7001", "-w", "sflow://localhost:7002")

	// A program's hook map shows verdicts also where the kernel refuses to trace.
	target := attachTarget(t, pair, testnet.Hooked)
	p := listening(t, pair.Rx, nil, append(collectors, "--hook", pinHook(t, target.Hook()), "--sflow-agent", "192.0.2.7,70000")...)
	frames := sendRound(t, pair)
	p.interrupt()
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	p = listening(t, pair.Rx, nil, append(collectors, "-i", pair.RxName, "--sample", "2")...)
	for i := range uint16(40) {
		testnet.Send(t, pair, testnet.VLAN(testnet.TxToRx().UDP(2000+i, 53, make([]byte, 300)), 100+i))
	}
	p.interrupt()

	all := l.read(t)
	flows, discards := samplesOf(all, flowSample), samplesOf(all, discardedSample)
	if len(flows) < len(frames)-1+20 || len(discards) != 2 {
		t.Fatalf("%d flow samples and %d discarded packets", len(flows), len(discards))
	}
	checkDiscards(t, discards, frames, 0, "")
	checkOutputs(t, flows[:5], true, 0)
	t.Run("goflow2", func(t *testing.T) { goflow2.check(t, all) })
	t.Run("sfacctd", func(t *testing.T) { sfacctd.check(t, flows) })
	t.Run("tshark", func(t *testing.T) { checkTshark(t, l, all) })
}

// startCollector starts a program in the pair's namespace, and waits until it receives on a UDP
// port.
func startCollector(t *testing.T, pair *testnet.Pair, port uint16, name string, args ...string) *exec.Cmd {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := pair.Rx.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, output.String())
		}
	})
	testnet.WaitFor(t, name, func() bool {
		for _, table := range []string{"udp", "udp6"} {
			sockets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", cmd.Process.Pid, table))
			if strings.Contains(string(sockets), fmt.Sprintf(":%04X ", port)) {
				return true
			}
		}
		return false
	})
	return cmd
}

// A goflow2 is that collector, which writes what it decodes as JSON.
type goflow2 struct{ file string }

// startGoflow2 starts goflow2 as contrib/fleet has it. It is built only where Go's build cache does
// not have it.
func startGoflow2(t *testing.T, pair *testnet.Pair, port uint16) *goflow2 {
	t.Helper()
	g := &goflow2{file: filepath.Join(t.TempDir(), "json")}
	find := exec.Command("go", "tool", "-C", filepath.Join("..", "..", "contrib", "fleet"), "-n", "goflow2")
	find.Stderr = os.Stderr
	binary, err := find.Output()
	if err != nil {
		t.Fatalf("%v: %v", find.Args, err)
	}
	startCollector(t, pair, port, strings.TrimSpace(string(binary)), "-listen", fmt.Sprintf("sflow://127.0.0.1:%d", port),
		"-addr", "", "-produce", "raw", "-transport.file", g.file, "-templates.path", "")
	return g
}

// check compares the samples that goflow2 has decoded with those that a collector of the test has.
// Their pools may differ, because each output asks for it by itself.
func (g *goflow2) check(t *testing.T, all []sflowDatagram) {
	var want, got []string
	for _, d := range all {
		for _, s := range d.samples {
			want = append(want, s.fields(d.agent.String(), d.subAgent))
		}
	}
	slices.Sort(want)
	testnet.WaitFor(t, "goflow2", func() bool {
		got = g.read(t)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("goflow2's samples (-want +got):\n%s", diff)
	}
}

// fields are those of a sample that a collector decodes.
func (s *sflowSample) fields(agent string, subAgent uint32) string {
	text := fmt.Sprintf("%s,%d type %d sequence %d source %d:%d", agent, subAgent, s.kind, s.sequence, s.sourceType, s.sourceIndex)
	if s.kind == counterSample {
		return fmt.Sprintf("%s %d", text, s.counters[1])
	}
	return fmt.Sprintf("%s rate %d drops %d input %d output %d %d reason %d length %d-%d VLAN %d %d %x",
		text, s.rate, s.drops, s.input, s.outputFormat, s.output, s.reason, s.frameLength, s.stripped, s.vlan, s.priority, s.header)
}

// A goflow2Sample has the fields of goflow2's flow samples, discarded packets and counters.
type goflow2Sample struct {
	Header struct {
		Format   uint32
		Sequence uint32 `json:"sample-sequence-number"`
		Type     uint32 `json:"source-id-type"`
		Index    uint32 `json:"source-id-value"`
	}
	Rate         uint32 `json:"sampling-rate"`
	Drops        uint32 `json:"drops"`
	Input        uint32 `json:"input-if-value"`
	OutputFormat uint32 `json:"output-if-format"`
	Output       uint32 `json:"output-if-value"`
	DiscardInput uint32 `json:"input"`
	Reason       uint32
	Records      []struct {
		Header struct {
			Format uint32 `json:"data-format"`
			Length int
		}
		Data struct {
			FrameLength uint32 `json:"frame-length"`
			Stripped    uint32
			Length      int    `json:"original-length"`
			Header      []byte `json:"header-data"`
			VLAN        uint32 `json:"src-vlan"`
			Priority    uint32 `json:"src-priority"`
			Index       uint32 `json:"if-index"`
		}
	}
}

// read returns the samples that goflow2 has written so far.
func (g *goflow2) read(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(whole) {
		var d struct {
			Message struct {
				Agent    string `json:"agent-ip"`
				SubAgent uint32 `json:"sub-agent-id"`
				Samples  []goflow2Sample
			}
		}
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, in := range d.Message.Samples {
			h := in.Header
			s := sflowSample{
				kind: h.Format, sequence: h.Sequence, sourceType: h.Type, sourceIndex: h.Index,
				rate: in.Rate, drops: in.Drops, input: in.Input + in.DiscardInput, outputFormat: in.OutputFormat, output: in.Output, reason: in.Reason,
				counters: map[uint32]int{},
			}
			for _, r := range in.Records {
				switch {
				case s.kind == counterSample:
					s.counters[r.Header.Format] = r.Header.Length
				case r.Header.Format == 1:
					s.frameLength, s.stripped, s.header = r.Data.FrameLength, r.Data.Stripped, r.Data.Header[:r.Data.Length]
				case r.Header.Format == 1001:
					s.vlan, s.priority = r.Data.VLAN, r.Data.Priority
				}
			}
			all = append(all, s.fields(d.Message.Agent, d.Message.SubAgent))
		}
	}
	slices.Sort(all)
	return all
}

// An sfacctd is pmacct's collector, which writes flows as JSON.
type sfacctd struct {
	file string
	port uint16
	cmd  *exec.Cmd
}

func startSfacctd(t *testing.T, pair *testnet.Pair, port uint16) *sfacctd {
	t.Helper()
	testnet.Require(t, "sfacctd")
	dir := t.TempDir()
	s := &sfacctd{file: filepath.Join(dir, "json"), port: port}
	config := filepath.Join(dir, "conf")
	err := os.WriteFile(config, fmt.Appendf(nil, `daemonize: false
sfacctd_ip: 127.0.0.1
sfacctd_port: %d
sfacctd_renormalize: true
plugins: print
aggregate: src_host, dst_host, src_port, dst_port, proto, in_iface, out_iface, vlan, peer_src_ip
print_refresh_time: 1
print_history: 1h
print_output: json
print_output_file: %s
print_output_file_append: true
`, port, s.file), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = startCollector(t, pair, port, "sfacctd", "-f", config)
	return s
}

// check compares sfacctd's estimates of the flows, one for each source port, with the samples.
func (s *sfacctd) check(t *testing.T, flows []sflowSample) {
	want := make(map[string]string)
	for _, f := range flows {
		ports := 34
		if f.vlan > 0 {
			ports += 4
		}
		key := fmt.Sprint(binary.BigEndian.Uint16(f.header[ports:]), " ", binary.BigEndian.Uint16(f.header[ports+2:]))
		want[key] = fmt.Sprintf("from %d to %d VLAN %d: %d packets, %d bytes", f.input, f.output, f.vlan, f.rate, f.rate*f.frameLength)
	}
	// It keeps the last samples in a buffer until others come or it ends. The queue of
	// its socket is the second column behind the addresses.
	testnet.WaitFor(t, "sfacctd to take all datagrams", func() bool {
		sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/udp", s.cmd.Process.Pid))
		return err == nil && regexp.MustCompile(fmt.Sprintf(`:%04X 00000000:0000 \S+ 00000000:00000000 `, s.port)).Match(sockets)
	})
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	var got map[string]string
	testnet.WaitFor(t, "sfacctd", func() bool {
		got = s.read(t)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sfacctd's flows (-want +got):\n%s", diff)
	}
}

// read returns the flows that sfacctd has written so far.
func (s *sfacctd) read(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	flows := make(map[string]string)
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(whole) {
		var f struct {
			VLAN           uint32
			In             uint32 `json:"iface_in"`
			Out            uint32 `json:"iface_out"`
			Source         uint32 `json:"port_src"`
			Destination    uint32 `json:"port_dst"`
			Packets, Bytes uint32
		}
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		flows[fmt.Sprint(f.Source, " ", f.Destination)] = fmt.Sprintf("from %d to %d VLAN %d: %d packets, %d bytes", f.In, f.Out, f.VLAN, f.Packets, f.Bytes)
	}
	return flows
}

// writeDatagrams writes what a collector has received as packets to its port, for tshark.
func (l *sflowListener) writeDatagrams(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "sflow.pcap")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	w.WriteFileHeader(1<<16, layers.LinkTypeRaw)
	for _, d := range l.datagrams {
		ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IPv4(127, 0, 0, 1), DstIP: net.IPv4(127, 0, 0, 1)}
		udp := &layers.UDP{SrcPort: 40000, DstPort: sflow.DefaultPort}
		udp.SetNetworkLayerForChecksum(ip)
		b := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp, gopacket.Payload(d)); err != nil {
			t.Fatal(err)
		}
		w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(b.Bytes()), Length: len(b.Bytes())}, b.Bytes())
	}
	return file
}

// checkTshark lets tshark decode the datagrams. Its version 4.0 loses its way in the counters of a
// host, which therefore stand with discarded packets alone.
func checkTshark(t *testing.T, l *sflowListener, all []sflowDatagram) {
	file := l.writeDatagrams(t)
	out := outputOf(t, "tshark", "-nr", file, "-o", "sflow.enable_dissection:FALSE", "-T", "fields", "-E", "separator=|",
		"-e", "sflow_245.agent", "-e", "sflow_245.sub_agent_id", "-e", "sflow_245.sequence_number", "-e", "sflow_245.numsamples",
		"-e", "sflow.flow_sample.sequence_number", "-e", "sflow.flow_sample.sampling_rate", "-e", "sflow.flow_sample.sample_pool",
		"-e", "sflow.flow_sample.input_interface_value", "-e", "sflow.flow_sample.output_interface_value",
		"-e", "sflow_245.header.frame_length", "-e", "sflow_245.vlan.in", "-e", "sflow_245.ifindex", "-e", "_ws.malformed", "-e", "_ws.expert.message")
	var want strings.Builder
	for _, d := range all {
		var columns [10][]string
		for _, s := range d.samples {
			add := func(column int, numbers ...uint32) {
				for _, n := range numbers {
					columns[column] = append(columns[column], fmt.Sprint(n))
				}
			}
			switch {
			case s.kind == counterSample && s.sourceType == 0:
				add(7, s.sourceIndex)
			case s.kind == flowSample:
				add(0, s.sequence)
				add(1, s.rate)
				add(2, s.pool)
				add(3, s.input)
				add(4, s.output)
				add(5, s.frameLength)
				if s.vlan > 0 {
					add(6, s.vlan)
				}
			}
		}
		fmt.Fprintf(&want, "%s|%d|%d|%d", d.agent, d.subAgent, d.sequence, len(d.samples))
		for _, c := range columns {
			want.WriteString("|" + strings.Join(c, ","))
		}
		want.WriteString("\n")
	}
	got := strings.Split(out, "\n")
	for i, line := range strings.Split(want.String(), "\n") {
		if i < len(all) && slices.ContainsFunc(all[i].samples, isSpecial) {
			if common := slices.IndexFunc(all[i].samples, func(s sflowSample) bool { return !isSpecial(s) }); common >= 0 {
				t.Errorf("datagram %d has samples that tshark does not know, and others", i)
			}
			continue
		}
		if diff := cmp.Diff(line, got[i]); diff != "" {
			t.Errorf("datagram %d: tshark's fields (-want +got):\n%s", i, diff)
		}
	}
}

// isSpecial tells whether some programs do not know a sample.
func isSpecial(s sflowSample) bool { return s.kind == discardedSample || s.sourceType == 2 }

// The recipe for a fleet runs as the README has it: goflow2 says of three hosts together what was
// sent, and each host what it has dropped.
func TestFleet(t *testing.T) {
	skipEmulated(t)
	testnet.RequireRoot(t)
	testnet.Require(t, "jq")
	cmd := exec.Command(filepath.Join("..", "..", "contrib", "fleet", "fleet.sh"), os.Args[0])
	cmd.Env = append(os.Environ(), beXdpcap+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []struct {
		flow    string
		packets float64
	}{{"10.99.1.2 > 10.99.3.2:7001", 6000}, {"10.99.2.2 > 10.99.3.2:7002", 3000}, {"10.99.3.2 > 10.99.2.2:7003", 1000}} {
		_, rest, _ := strings.Cut(string(out), want.flow)
		var packets float64
		fmt.Sscan(rest, &packets)
		// One of ten is drawn, so the deviation is three times the root of the packets.
		if limit := 5 * 3 * math.Sqrt(want.packets); math.Abs(packets-want.packets) > limit {
			t.Errorf("%s: %.0f packets, want %.0f: %s", want.flow, packets, want.packets, out)
		}
	}
	for i, dropped := range []int{500, 200, 0} {
		_, host, _ := strings.Cut(string(out), fmt.Sprintf("host %d: ", i+1))
		host, _, _ = strings.Cut(host, "\n")
		if !strings.HasSuffix(host, fmt.Sprintf(" 0 lost, %d dropped", dropped)) {
			t.Errorf("host %d: %s, want %d dropped: %s", i+1, host, dropped, out)
		}
	}
}
