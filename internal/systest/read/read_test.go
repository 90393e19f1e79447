package read_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

var (
	sampleTarget = capture.Program{ID: 7, Name: "prog"}
	entrySource  = capture.Source{Name: "eth0", Hook: capture.Entry, Target: sampleTarget}
	exitSource   = capture.Source{Name: "eth0", Hook: capture.Exit, Target: sampleTarget}
)

// The lines of a file are those that the capture printed.
func TestReadPrintsAsLive(t *testing.T) {
	t.Parallel()
	for name, sources := range map[string][]capture.Source{
		"one":            {systest.PlainSource},
		"two":            {systest.PlainSource, {Name: "eth1"}},
		"entry and exit": {entrySource, exitSource},
		"exit":           {exitSource},
		"hook map":       {{Name: "/sys/fs/bpf/map", Hook: capture.TailCall}},
	} {
		file := systest.WriteSample(t, sources...)
		for flags, format := range map[string]lines.Format{
			"-n":     {},
			"-v":     {Options: dissect.Options{Verbose: 1}},
			"-eXttt": {Options: dissect.Options{LinkLevel: true, Dump: dissect.HexASCIIDump, Time: dissect.SincePrevious}},
			"-#tq":   {Options: dissect.Options{Number: true, Time: dissect.NoTime, Quiet: true}},
		} {
			var live bytes.Buffer
			file.WriteTo(t, lines.NewPrinter(&live, "", func() error { return nil }, format))
			want := live.String()
			if format.Time == dissect.LocalTime {
				want = strings.ReplaceAll(want, time.Unix(1700000000, 0).Format("15:04:"), "22:13:") // the process has TZ=UTC
			}
			if diff := cmp.Diff(want, systest.MustRead(t, flags, file.Path)); diff != "" {
				t.Errorf("%s %s: %s", name, flags, diff)
			}
		}
	}
}

// A capture prints the same lines as read prints from its file, except for hashes by software,
// which are not in the file.
func TestReadLikeCapture(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p, printed := systest.Counting(t, pair, "-i", pair.RxName, "-w", file, "--print", "-ve")
	testnet.Send(t, pair, testnet.MixedTraffic()...)
	p.Interrupt()
	got, err := systest.Command("-r", file, "-ve").Output() // as tcpdump's users type it
	testnet.Must(t, err)
	want := regexp.MustCompile(", hash 0x[0-9a-f]{8} by software").ReplaceAllString(printed(), "")
	if diff := cmp.Diff(want, string(got)); diff != "" || want == "" {
		t.Error(diff)
	}
}

// Lines of a file of another program are tcpdump's, and a filter selects the same packets.
func TestReadLikeTcpdump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sample.pcap")
	// for HTTP, which is in the pushed segments, tcpdump prints lines that xdpcap does not
	systest.MustRead(t, "-w", file, systest.WriteSample(t, systest.PlainSource).Path, "not tcp[tcpflags] & tcp-push != 0")
	if magic := systest.ReadBytes(t, file)[:4]; !bytes.Equal(magic, []byte{0x4d, 0x3c, 0xb2, 0xa1}) {
		t.Errorf("the file begins with % x: its name says pcap", magic)
	}
	t.Setenv("TZ", "UTC")
	for _, args := range []string{
		"-n", "-ne", "-nv", "-nX -c 5", "-nq tcp", "-ntt port 53 or arp", "-n vlan and icmp", "-n greater 80", "-n ip6 or not ip",
		"-n tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "-n host 192.0.2.1 and not tcp", "-n ether broadcast",
	} {
		flags := strings.Fields(args)
		n := len(flags)
		for i, word := range flags {
			if !strings.HasPrefix(word, "-") && (i == 0 || flags[i-1] != "-c") {
				n = i
				break
			}
		}
		want := systest.OutputOf(t, "tcpdump", append(append([]string{"-S", "-r", file}, flags[:n]...), strings.Join(flags[n:], " "))...)
		got := systest.MustRead(t, append(append(flags[:n:n], file), flags[n:]...)...)
		if diff := cmp.Diff(want, got); diff != "" || want == "" {
			t.Errorf("%s (-tcpdump +ours): %s", args, diff)
		}
	}
}

// --vlan-aware, --vxlan-port, -F and -d are the capture's.
func TestReadFilterFlags(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, systest.PlainSource).Path
	count := func(args ...string) int {
		return strings.Count(systest.MustRead(t, append([]string{"-t"}, args...)...), "\n")
	}
	plain, aware := count(file, "icmp"), count("--vlan-aware", file, "icmp")
	if plain != 4 || aware != 6 {
		t.Errorf("%d packets match icmp, and %d --vlan-aware", plain, aware)
	}
	if n := count("-F", writeBytes(t, []byte("icmp # comment")), file); n != plain {
		t.Errorf("-F: %d packets", n)
	}
	if got, want := systest.MustRead(t, "-ddd", file, "icmp"), systest.OutputOf(t, "tcpdump", "-y", "EN10MB", "-s", "262144", "-ddd", "icmp"); got != want {
		t.Errorf("-ddd: %s", got)
	}
	port := "jeq      #0x1388" // 5000
	if got := systest.MustRead(t, "-d", "--vxlan-port", "5000", file, "inner ip"); !strings.Contains(got, port) {
		t.Errorf("-d --vxlan-port 5000: no %s in:\n%s", port, got)
	}
	if _, stderr, status := systest.RunRead(t, nil, "--vxlan-port", "70000", file, "inner ip"); status == 0 || !strings.Contains(stderr, "is no UDP port") {
		t.Errorf("--vxlan-port 70000: status %d, %s", status, stderr)
	}
}

// Standard input is a file, too, and available packets are printed while read waits for more. A
// signal ends that silently, even before the format is detected.
func TestReadStandardInput(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, systest.PlainSource).Path
	data, whole := systest.ReadBytes(t, file), systest.MustRead(t, file)
	for _, test := range []struct{ in, printed string }{
		{string(data[:2]), ""}, // half of a file's magic number
		{string(data[:len(data)-300]), whole[:len(whole)/2]},
	} {
		var stderr bytes.Buffer
		stdout := systest.NewPipe(t)
		cmd := systest.Command("read", "-")
		cmd.Env = append(cmd.Env, "TZ=UTC")
		r, in, err := os.Pipe()
		testnet.Must(t, err)
		defer in.Close()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = r, stdout.In, &stderr
		testnet.Must(t, cmd.Start())
		defer cmd.Process.Kill()
		in.WriteString(test.in)
		testnet.WaitFor(t, "the input to be read and printed", func() bool {
			waiting, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
			return err == nil && waiting == 0 && len(stdout.Read(t)) >= len(test.printed)
		})
		r.Close()
		cmd.Process.Signal(os.Interrupt)
		err = cmd.Wait()
		got := stdout.Read(t)
		if err != nil || stderr.Len() > 0 || !strings.HasPrefix(whole, got) || (got == "") != (test.printed == "") {
			t.Errorf("%v: %s%s", err, got, &stderr)
		}
	}
}

// A reader that closes the pipe is no error of printing, as with `xdpcap read FILE | head`.
func TestReadIntoHead(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, systest.PlainSource).Path
	many := []string{"read"}
	for range 200 {
		many = append(many, file)
	}
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	var stderr bytes.Buffer
	cmd := systest.Command(many...)
	cmd.Stdout, cmd.Stderr = w, &stderr
	testnet.Must(t, cmd.Start())
	w.Close()
	io.ReadFull(r, make([]byte, 10))
	r.Close()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v: %s", err, &stderr)
	}
}

// Settings for captures do not make read overwrite a capture's file, or stop early.
func TestReadSettings(t *testing.T) {
	file := systest.WriteSample(t, systest.PlainSource)
	out := systest.TempFile(t)
	t.Setenv("XDPCAP_WRITE", out)
	t.Setenv("XDPCAP_COUNT", "1")
	t.Setenv("XDPCAP_TIME_FORMAT", "1")
	got := systest.MustRead(t, file.Path)
	if _, err := os.Stat(out); err == nil || strings.Count(got, "\n") != len(file.Packets) || !strings.HasPrefix(got, "ARP") {
		t.Errorf("%v: %s", err, got)
	}
}

// A truncated file is read to its last whole block, and a message reports the truncation.
func TestReadCutFile(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, systest.PlainSource)
	data := systest.ReadBytes(t, file.Path)
	cut := writeBytes(t, data[:len(data)/2])
	whole := systest.MustRead(t, file.Path)
	stdout, stderr, status := systest.RunRead(t, nil, cut)
	if !strings.HasPrefix(whole, stdout) || strings.Count(stdout, "\n") < 8 || status != 1 ||
		!strings.HasPrefix(stderr, "xdpcap: "+cut+" is truncated after ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
	// The file written from it is whole.
	out := systest.TempFile(t)
	if _, _, status := systest.RunRead(t, nil, "-w", out, cut); status != 1 {
		t.Errorf("exit status %d", status)
	}
	if got := systest.MustRead(t, out); got != stdout {
		t.Error(cmp.Diff(stdout, got))
	}
}

// --json has an object per packet with all its data, also together with --format json.
func TestReadJSON(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, entrySource, exitSource)
	got := readPackets(t, file.Path, "--format", "json")
	lines := strings.Split(strings.TrimSpace(systest.MustRead(t, "-t", file.Path)), "\n")
	if len(got) != len(file.Packets) || len(lines) != len(got) {
		t.Fatalf("%d objects, %d lines of %d packets", len(got), len(lines), len(file.Packets))
	}
	for i, p := range file.Packets {
		k := got[i]
		verdict, hook, to, reason := "", "entry", "", ""
		if p.Source == 1 {
			verdict, hook = p.Verdict.String(), "exit"
		}
		if p.To != 0 {
			to = systest.OutletName(p.To)
		}
		if p.Reason != 0 {
			reason = systest.ReasonName(p.Source, p.Facts)
		}
		if k.Number != uint64(i+1) || k.Time.UnixNano() != p.Time || k.Interface != "eth0" || k.Program != "prog" || k.Hook != hook ||
			k.Verdict != verdict || k.To != to || k.Reason != reason || k.Location != "" || *k.Queue != p.Queue || *k.ID != p.ID || k.Lost != p.Dropped || int(k.Length) != int(p.WireLen) ||
			k.Captured != len(p.Data) || !strings.HasSuffix(lines[i], " "+k.Line) || k.File != "" {
			t.Errorf("packet %d %+v: %+v", i, p, k)
		}
	}
	arp, echo := got[0], got[2]
	if arp.FlowKeys != (systest.FlowKeys{Family: "other", Protocol: "arp"}) || echo.Family != "ipv4" || echo.Protocol != "icmp" || echo.Source != "192.0.2.1" ||
		echo.Destination != "192.0.2.2" || echo.SourcePort != 0 {
		t.Errorf("%+v %+v", arp.FlowKeys, echo.FlowKeys)
	}
}

// --stats adds up packets, gaps and accounts.
func TestReadStats(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, entrySource, exitSource)
	r := systest.StatsOf(t, file.Path)
	n := uint64(len(file.Packets))
	var bytes, gaps, lost, drops uint64
	for _, p := range file.Packets {
		bytes += uint64(p.WireLen)
		if p.Dropped > 0 {
			gaps, lost = gaps+1, lost+p.Dropped
		}
		if p.Source == 1 && p.Verdict == capture.Drop {
			drops++
		}
	}
	if r.Total.Packets != n || r.Total.Bytes != bytes || len(r.Interfaces) != 2 || r.Verdicts["drop"].Packets != drops || drops == 0 ||
		r.Interfaces[0].Gaps+r.Interfaces[1].Gaps != gaps || r.Interfaces[0].LostInGaps+r.Interfaces[1].LostInGaps != lost {
		t.Errorf("%+v", r)
	}
	seconds := float64(file.Packets[n-1].Time-file.Packets[0].Time) / 1e9
	if r.Duration != seconds || r.Total.PacketsPerSecond != float64(n)/seconds || !r.From.Equal(time.Unix(0, file.Packets[0].Time)) {
		t.Errorf("%+v over %v s", r.Total, r.Duration)
	}
	a := r.Interfaces[1].Account
	if a == nil || *a.Seen != 100 || *a.FilteredOut != 50 || *a.NotSampled != 20 || *a.Captured+*a.Lost != 30 || *a.NotTaken != 0 {
		t.Errorf("account %v", a)
	}
	if f := r.Flows[0]; f.Protocol != "icmpv6" || f.Estimate == nil || len(r.Flows) != 10 {
		t.Errorf("flows %+v", r.Flows)
	}
	text := systest.MustRead(t, "--stats", file.Path)
	for _, says := range []string{"eth0:prog@exit", "VERDICT", "drop", "FLOW", "eth0:prog@exit: 100 seen = 50 filtered out + 20 not sampled + "} {
		if !strings.Contains(text, says) {
			t.Errorf("the text has no %q: %s", says, text)
		}
	}
	for line := range strings.Lines(text) {
		if len(line) > 100+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	// A file without packets, and one without counts of losses.
	if text := systest.MustRead(t, "--stats", linkFile(t, 1)); !strings.Contains(text, "total") {
		t.Error(text)
	}
}

// Packets of an unknown link type are neither decoded nor filtered. That is an error, so that a
// script does not treat them as packets that do not match.
func TestReadOtherLinkType(t *testing.T) {
	t.Parallel()
	file := linkFile(t, 107, make([]byte, 84))
	undecoded := "xdpcap: did not decode 1 packet of link type FRELAY (107)\n"
	stdout, stderr, status := systest.RunRead(t, nil, "-t", file)
	if stdout != "link type FRELAY (107), length 84: not decoded\n" || status != 1 || stderr != undecoded {
		t.Errorf("%d: %s%s", status, stdout, stderr)
	}
	stdout, stderr, status = systest.RunRead(t, nil, file, "ip")
	if stdout != "" || status != 1 || stderr != "xdpcap: skipped 1 packet: filters do not know link type FRELAY (107): choose with tcpdump -r FILE -w - FILTER | xdpcap read -\n" {
		t.Errorf("with a filter: %d: %s%s", status, stdout, stderr)
	}
	_, stderr, status = systest.RunRead(t, nil, "-w", systest.TempFile(t)+".json", "-w", systest.TempFile(t)+".json", "--print", file)
	if stderr != undecoded || status != 1 {
		t.Errorf("with several outputs: %d: %s", status, stderr)
	}
	if _, stderr, status = systest.RunRead(t, nil, "-w", systest.TempFile(t), file); status != 0 || stderr != "" {
		t.Errorf("into a file: %d: %s", status, stderr)
	}
	cooked := linkFile(t, 113, make([]byte, 84))
	_, stderr, status = systest.RunRead(t, nil, cooked, "ether host 02:00:00:00:00:01")
	if want := "xdpcap: skipped 1 packet: the filter cannot be applied to link type LINUX_SLL (113): Linux cooked v1 packets have no Ethernet header"; status != 1 || !strings.HasPrefix(stderr, want) {
		t.Errorf("%d: %s", status, stderr)
	}
}

// linkFile writes a file of packets of a link type.
func linkFile(t *testing.T, typ uint16, packets ...[]byte) string {
	t.Helper()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	b = pcapng.AppendInterface(b, &pcapng.Interface{LinkType: typ})
	for _, data := range packets {
		b = pcapng.AppendPacket(b, &pcapng.Packet{Data: data, WireLen: uint32(len(data))})
	}
	return writeBytes(t, b)
}

// Files of `tcpdump -i any`, and those of IP without a header before it, are printed, filtered,
// counted and written as lines of JSON, with the flow of the packet inside.
func TestReadLinkTypes(t *testing.T) {
	t.Parallel()
	ip := testnet.UDPFrame(64, 0)[14:]
	arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 20)...)
	cooked := func(etherType string, packet []byte) []byte {
		return append([]byte("\x00\x04\x00\x01\x00\x06\x02\x00\x00\x00\x00\x01\x00\x00"+etherType), packet...)
	}
	cooked2 := func(etherType string, packet []byte) []byte {
		return append([]byte(etherType+"\x00\x00\x00\x00\x00\x63\x00\x01\x04\x06\x02\x00\x00\x00\x00\x01\x00\x00"), packet...)
	}
	for typ, packets := range map[uint16][][]byte{
		113: {cooked("\x08\x00", ip), cooked("\x08\x06", arp)},
		276: {cooked2("\x08\x00", ip), cooked2("\x08\x06", arp)},
		101: {ip},
	} {
		file := linkFile(t, typ, packets...)
		for _, filter := range []string{"", "udp", "arp", "not udp", "outbound and udp", "udp port 9 or udp port 7"} {
			words := strings.Fields(filter)
			if typ == 101 && (filter == "arp" || strings.HasPrefix(filter, "out")) { // tcpdump refuses these
				continue
			}
			want := systest.OutputOf(t, "tcpdump", append([]string{"-nSr", file}, words...)...)
			want = strings.ReplaceAll(want, "?     Out", "if99  Out") // tcpdump has no interface of this index
			stdout, stderr, status := systest.RunRead(t, nil, append([]string{file}, words...)...)
			if stdout != want || stderr != "" || status != 0 {
				t.Errorf("%d %q: exit status %d: %s%swant %s", typ, filter, status, stderr, stdout, want)
			}
		}
		var h headers.Headers
		headers.Parse(headers.Raw, ip, &h)
		source := fmt.Sprintf(`"source":"%s"`, h.Source)
		if text := systest.MustRead(t, "--format", "json", file, "udp"); !strings.Contains(text, source) || strings.Contains(text, "_mac") {
			t.Errorf("%d: no %s in %s", typ, source, text)
		}
		if text := systest.MustRead(t, "--stats", file); !strings.Contains(text, h.Source.String()+":") {
			t.Errorf("%d: no %v in %s", typ, h.Source, text)
		}
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, systest.PlainSource).Path
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "which file? xdpcap read out.pcapng; - is standard input"},
		{[]string{"/no/such/file"}, "open /no/such/file: no such file or directory"},
		{[]string{dir}, dir + " has no capture files"},
		{[]string{os.DevNull}, os.DevNull + " is empty"},
		{[]string{writeBytes(t, []byte("{\"time\":1}\n"))}, "has lines of JSON, which cannot be read again"},
		{[]string{os.Args[0]}, "is neither pcapng nor pcap, but begins with the bytes 7f 45 4c 46"},
		{[]string{file, "tcp", "prt", "80"}, "tcp prt 80\n    ^^^\nsyntax error"},
		{[]string{file, dir + "/none"}, dir + "/none is neither a file nor a filter"},
		{[]string{"-c", "0", file}, "-c 0: must be at least 1"},
		{[]string{"-w", file, file}, "-w " + file + ": this file is being read: choose another one"},
		{[]string{"-w", "-", "--print", file}, "both need standard output"},
		{[]string{"--stats", "--print", "-w", "x", file}, "omit --print"},
		{[]string{"--format", "snoop", file}, `file format "snoop"`},
		{[]string{"--follow", "-w", "out.pcapng", file}, "omit -w"},
		{[]string{"--follow", "--serve", "127.0.0.1:0", file}, "omit --serve"},
		{[]string{"--follow", "--stats", file}, "choose one"},
		{[]string{"--follow", "--format", "json", file}, "--json prints an object for each packet"},
		{[]string{"--follow", "--format", "pcapng", "--json", file}, "has no lines of --format pcapng"},
		{[]string{"--follow", "-c", "0", file}, "-c 0: must be at least 1"},
		{[]string{"-w", "/dev/full", file}, "write packets to /dev/full: no space left on device\n"},
	} {
		stdout, stderr, status := systest.RunRead(t, nil, test.args...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit status %d: %s%s", test.args, status, stdout, stderr)
		}
	}
}

// If several files are read, each line has the name of its packet's file.
func TestReadLabelsOfFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	one := pcapng.AppendSection(nil, &pcapng.Section{})
	one = pcapng.AppendInterface(one, &pcapng.Interface{LinkType: 1, Name: "eth0"})
	one = pcapng.AppendPacket(one, &pcapng.Packet{Data: testnet.UDPFrame(64, 0), WireLen: 64})
	unnamed := linkFile(t, 1, testnet.UDPFrame(64, 1))
	for name, file := range map[string][]byte{"a.pcapng": one, "b.pcapng": one, "c.pcapng": systest.ReadBytes(t, unnamed)} {
		testnet.Must(t, os.WriteFile(name, file, 0o600))
	}
	for args, want := range map[string][]string{
		"a.pcapng":                     {"IP"},
		"a.pcapng b.pcapng":            {"a.pcapng:eth0", "b.pcapng:eth0"},
		"a.pcapng ./b.pcapng c.pcapng": {"a.pcapng:eth0", "./b.pcapng:eth0", "c.pcapng"},
	} {
		var got []string
		for line := range strings.Lines(systest.MustRead(t, append([]string{"-t"}, strings.Fields(args)...)...)) {
			got = append(got, strings.Fields(line)[0])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// A file of version 0.1.0 has the same data for this version: weights, outlets, a clock that was
// set back, and how packets were selected.
func TestReadOldFile(t *testing.T) {
	t.Parallel()
	const file = "testdata/written-by-0.1.pcapng"
	lines := strings.Split(systest.MustRead(t, "--format", "json", file), "\n")
	for i, want := range []string{`"captured":60,"weight":1000,"source_mac"`, `"captured":60,"weight":10,"to":"eth1","source_mac"`, `"captured":60,"clock_set_back_ns":1000000000,"source_mac"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %s: %s", i+1, want, lines[i])
		}
	}
	r := systest.StatsOf(t, file)
	want := []string{"all packets of one flow in 8", "the first 5 packets of each flow", "at most 100 packets per second", "the weight of 4 packets that were drawn and lost"}
	if diff := cmp.Diff(want, r.NotEstimated); diff != "" {
		t.Error(diff)
	}
	for verdict, packets := range map[string]uint64{"pass": 1000, "redirect": 10, "drop": 1} {
		if e := r.Verdicts[verdict].Estimate; e.Packets != packets {
			t.Errorf("%s: %d packets, want %d", verdict, e.Packets, packets)
		}
	}
	// Verdicts have rates of their own: a verdict whose packets were all kept had no other packets.
	if e := r.Verdicts["drop"].Estimate; e.PacketsHigh != 1 {
		t.Errorf("up to %d packets with the verdict drop, want 1", e.PacketsHigh)
	}
}
