package capture_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// With -s headers+4 no output has more than 4 bytes of any packet's payload: files, lines of JSON,
// streams and samples of sFlow. The length on the wire stays, the account adds up, and the file has
// a note of the truncation, also a file that read writes from it.
func TestHeadersOutputs(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) { testHeadersOutputs(t, transport) })
	}
}

func testHeadersOutputs(t *testing.T, transport string) {
	const kept = 4
	path, payload := testnet.TxToRx(), []byte("this is a secret")
	secret := payload[kept:]
	frames := [][]byte{
		path.TCP(testnet.Segment{SrcPort: 1000, DstPort: 80, Payload: payload}), path.UDP(1000, 53, payload),
		path.UDPv6(1000, 53, payload), testnet.VLAN(path.UDP(1000, 53, payload), 5),
	}
	var want [][]byte
	bytesKept := uint64(0)
	for i, end := range []int{54, 42, 62, 46} {
		want = append(want, frames[i][:end+kept])
		bytesKept += uint64(end + kept)
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	collector := systest.ListenSFlow(t, pair.Rx)
	dir := t.TempDir()
	one, two, three := filepath.Join(dir, "out.pcapng"), filepath.Join(dir, "out.pcap"), filepath.Join(dir, "out.json")
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-s", fmt.Sprint("headers+", kept), "--transport", transport, "-w", one, "-w", two, "-w", three,
		"-w", "sflow://"+collector.Address, "--serve", ":0", "--json")
	if text := fmt.Sprintf("snapshot length headers+%d\n", kept); !strings.Contains(p.Stderr(), text) {
		t.Errorf("no %q in %s", text, p.Stderr())
	}
	client, streamed := systest.Join(t, pair, p)
	testnet.Send(t, pair, frames...)
	if s := systest.Account(t, p.Interrupt()); s.Captured != uint64(len(frames)) || s.Bytes != bytesKept {
		t.Errorf("summary %+v", s)
	}
	rest, err := io.ReadAll(client)
	testnet.Must(t, err)
	streamed = append(streamed, rest...)

	check := func(where string, i, length int, data []byte) {
		if i >= len(want) || length != len(frames[i]) || !bytes.Equal(data, want[i]) {
			t.Errorf("%s: packet %d: %d bytes of %d", where, i, len(data), length)
		}
	}
	records, r := systest.ReadFile(t, one)
	for i, record := range records {
		check(one, i, record.CI.Length, record.Data)
	}
	if len(records) != len(frames) {
		t.Errorf("%s has %d packets", one, len(records))
	}
	done := fmt.Sprintf("packets were cut in the kernel, %d bytes after the end of their headers\n", kept)
	if comment := r.SectionInfo().Comment; !strings.Contains(comment, done) {
		t.Errorf("no %q in %s", done, comment)
	}
	classic := systest.ReadBytes(t, two)
	old, err := pcapgo.NewReader(bytes.NewReader(classic))
	testnet.Must(t, err)
	for i := range frames {
		data, ci, err := old.ReadPacketData()
		testnet.Must(t, err)
		check(two, i, ci.Length, data)
	}
	lines := systest.ReadBytes(t, three)
	for i, k := range systest.Objects[systest.PacketKeys](t, string(lines)) {
		if i >= len(want) || int(k.Length) != len(frames[i]) || k.Captured != len(want[i]) {
			t.Errorf("line %d: %+v", i, k)
		}
	}
	samples := collector.Wait(t, systest.FlowSample, len(frames))
	for i, s := range samples {
		check("sFlow", i, int(s.FrameLength)-4, s.Header)
	}
	if len(samples) != len(frames) {
		t.Errorf("%d samples of sFlow", len(samples))
	}
	read := filepath.Join(dir, "read.pcapng")
	systest.MustRead(t, "-w", read, one)
	for name, data := range map[string][]byte{one: systest.ReadBytes(t, one), two: classic, three: lines, "the stream": streamed, read: systest.ReadBytes(t, read)} {
		if bytes.Contains(data, secret) {
			t.Errorf("%s has the payload", name)
		}
		if isPCAPNG := name != two && name != three; isPCAPNG && !bytes.Contains(data, []byte(done)) {
			t.Errorf("%s does not say that packets were cut", name)
		}
	}
	out := systest.OutputOf(t, "tshark", "-r", one, "-Y", "tcp", "-T", "fields", "-E", "separator=|", "-e", "frame.cap_len", "-e", "frame.len", "-e", "ip.hdr_len", "-e", "tcp.hdr_len")
	if want := fmt.Sprintf("%d|%d|20|20\n", 14+20+20+kept, len(frames[0])); out != want {
		t.Errorf("tshark reads %q, want %q", out, want)
	}
}
