package surroundings_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The tables for lines of JSON keep every key, with its value. Keys of a newer xdpcap are ignored.
func TestClickHouseKeys(t *testing.T) {
	t.Parallel()
	c := startClickHouse(t, testnet.MustPair(t, testnet.PairOptions{}).Rx)
	line := systest.LineWithAllKeys()
	newer := bytes.Replace(line, []byte("{"), []byte(`{"newer":1,`), 1)
	testnet.Must(t, os.WriteFile(filepath.Join(c.dir, "packets.json"), newer, 0o600))
	c.run(exec.Command(c.insertScript(), "packets.json"))
	want := decodeLine(t, line)
	weight := uint64(2)
	want["packets"], want["bytes"] = json.Number(fmt.Sprint(weight)), json.Number(fmt.Sprint(weight*300))
	got := decodeLine(t, []byte(c.query("SELECT * FROM packets FORMAT JSONEachRow")))
	delete(got, "second") // is shown in this machine's time zone
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a line (-) and its row (+) differ: %s", diff)
	}
	second := time.Unix(0, systest.LineTime).Unix()
	if got := c.query("SELECT toUnixTimestamp(second) FROM packets"); got != fmt.Sprint(second) {
		t.Errorf("second is %s, want %d", got, second)
	}
}

// decodeLine returns the keys of a line of JSON, with numbers as they are written.
func decodeLine(t *testing.T, line []byte) (keys map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&keys); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return keys
}

// A flowSum is the sum of a flow in a million packets, as a query of docs/fleet.md returns it.
type flowSum struct {
	port           uint16
	packets, bytes uint64
}

// A million packets of a file are a million rows, whose sums are those of the packets.
func TestClickHouseMillion(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("inserts a million rows")
	}
	c := startClickHouse(t, testnet.MustPair(t, testnet.PairOptions{}).Rx)
	const packets, ports = 1_000_000, 100
	sums, flows := writeMillion(t, filepath.Join(c.dir, "out.pcapng"), packets, ports)
	began := time.Now()
	c.run(c.command("xdpcap read --format json out.pcapng"))
	t.Logf("%d rows in %v", packets, time.Since(began))

	got := c.query("SELECT count(), sum(packets), sum(bytes), sum(length), sum(captured), sum(weight), sum(lost_before), sum(queue), " +
		"sum(id), uniqExact(id), min(time), max(time) FROM packets")
	if diff := cmp.Diff(sums, strings.Split(got, "\t")); diff != "" {
		t.Errorf("sums of the packets (-) and of the rows (+) differ: %s", diff)
	}
	slices.SortFunc(flows, func(a, b flowSum) int { return int(int64(b.bytes) - int64(a.bytes)) })
	var want []string
	for _, f := range flows[:20] {
		want = append(want, fmt.Sprintf("192.0.2.1\t192.0.2.2\t%d\t%d\t%d", f.port, f.packets, f.bytes))
	}
	largest := c.query(testfile.Block(t, fleetPage, "SELECT source, destination"))
	if diff := cmp.Diff(want, strings.Split(largest, "\n")); diff != "" {
		t.Errorf("the largest flows of the packets (-) and of the rows (+) differ: %s", diff)
	}
}

// writeMillion writes a file of that many packets to that many ports, and returns the sums that
// TestClickHouseMillion compares, and those of each flow. The packets are from now and the second
// after, so that the query for the last five minutes includes them all.
func writeMillion(t *testing.T, name string, packets, ports int) (sums []string, flows []flowSum) {
	t.Helper()
	file, err := os.Create(name)
	testnet.Must(t, err)
	w := bufio.NewWriterSize(file, 1<<20)
	block := pcapng.AppendSection(nil, &pcapng.Section{Application: "test"})
	block = pcapng.AppendInterface(block, &pcapng.Interface{Name: "eth0", LinkType: pcapng.Ethernet})
	first := uint64(time.Now().UnixNano())
	frames := make([][]byte, ports)
	flows = make([]flowSum, ports)
	for i := range frames {
		flows[i].port = uint16(1000 + i)
		frames[i] = testnet.TxToRx().UDP(5000, flows[i].port, make([]byte, 18+i))
	}
	var weights, bytes, lengths, captured, lost, queues, ids uint64
	for i := range packets {
		p := pcapng.Packet{
			Time: first + uint64(i)*1000, Data: frames[i%ports], Flags: pcapng.Inbound, Fields: pcapng.HasID | pcapng.HasQueue,
			ID: uint64(i) << 20, Queue: uint32(i % 8), Dropped: uint64(i % 3), Remarks: pcapng.Remarks{Weight: uint32(1 + i%7)},
		}
		p.WireLen = uint32(len(p.Data) + i%1000)
		block = pcapng.AppendPacket(block, &p)
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
		block = block[:0]
		f, weight := &flows[i%ports], uint64(p.Weight)
		f.packets += weight
		f.bytes += weight * uint64(p.WireLen)
		weights, bytes, lengths, captured = weights+weight, bytes+weight*uint64(p.WireLen), lengths+uint64(p.WireLen), captured+uint64(len(p.Data))
		lost, queues, ids = lost+p.Dropped, queues+uint64(p.Queue), ids+p.ID
	}
	testnet.Must(t, w.Flush())
	testnet.Must(t, file.Close())
	// A packet without a weight represents itself, and its line has no weight.
	given := weights - uint64((packets+6)/7)
	for _, sum := range []uint64{uint64(packets), weights, bytes, lengths, captured, given, lost, queues, ids, uint64(packets)} {
		sums = append(sums, fmt.Sprint(sum))
	}
	for _, at := range []uint64{first, first + uint64(packets-1)*1000} {
		sums = append(sums, time.Unix(0, int64(at)).UTC().Format("2006-01-02T15:04:05.000000000Z"))
	}
	return sums, flows
}

// Rows are visible during the capture. When it has ended, there are as many as in its account. They
// are inserted from a pipe in small blocks, or from files.
func TestClickHouseLive(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, command string
		block         uint64 // how many rows become visible together
	}{
		{"pipe", "xdpcap -i eth0 -w - --format json", 1000},
		{"files", "xdpcap -i eth0 -G 2 --atomic", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testClickHouseLive(t, test.command, test.block)
		})
	}
}

func testClickHouseLive(t *testing.T, command string, block uint64) {
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "eth0"})
	c := startClickHouse(t, pair.Rx)
	c.insertScript()
	p := c.capture(command)
	const size = 300
	generator := testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: 2500, Rate: 10_000}
	_, before := testnet.Generate(t, pair, generator)
	testnet.WaitFor(t, "rows during the capture", func() bool {
		var rows uint64
		fmt.Sscan(c.query("SELECT count() FROM packets"), &rows)
		return rows == before-before%block
	})
	_, after := testnet.Generate(t, pair, generator)
	s := c.end(p)
	if s.Captured != before+after || s.Bytes != s.Captured*size {
		t.Errorf("of %d packets of %d bytes: %+v", before+after, size, s.AccountKeys)
	}
	want := fmt.Sprintf("%d\t%d\t%d\t%d", s.Captured, s.Captured, s.Bytes, s.Bytes)
	if got := c.query("SELECT count(), sum(packets), sum(bytes), sum(captured) FROM packets"); got != want {
		t.Errorf("rows, packets, bytes and captured bytes are %q, want %q", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "packets-*")); len(left) > 0 {
		t.Errorf("files that were inserted are still there: %q", left)
	}
}
