package streams_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// gather merges the streams of two captures in two network namespaces. When one of them ends, a
// message says so, and the other one goes on. The file has the account of each, and tells their
// interfaces apart.
func TestGather(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	socket := func(name string) string { return "unix:" + filepath.Join(dir, name) }
	rx := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--serve", socket("rx"), "udp")
	tx := systest.Listening(t, pair.Tx, nil, "-i", pair.TxName, "-Q", "out", "--serve", socket("tx"), "udp")
	file := filepath.Join(dir, "both.pcapng")
	g := systest.Start(t, pair.Rx, nil, "gather", "-w", file, socket("rx"), socket("tx"))
	const alone = 50 // packets of the other one, after that
	sender, sent := testnet.MustSender(t, pair), uint64(0)
	send := func() {
		testnet.Must(t, sender.Send(testnet.UDPFrame(100, sent)))
		sent++
		time.Sleep(2 * time.Millisecond)
	}
	said := func(want string) func() bool {
		return func() bool { send(); return strings.Contains(g.Stderr(), want) }
	}
	testnet.WaitFor(t, "the clocks", said(" by "))
	rx.Interrupt()
	testnet.WaitFor(t, "the end of one", said("rx has ended\n"))
	for range alone {
		send()
	}
	tx.Interrupt()
	status, stderr := g.Wait()
	clock := regexp.MustCompile(`xdpcap: tx is 0\.00\d+ s (behind|ahead of) rx \(\+-\S+ us, drift .*\), by \d+ packets that both have\n`)
	if status != 0 || !clock.MatchString(stderr) {
		t.Errorf("status %d: %s", status, stderr)
	}

	records, r := systest.ReadFile(t, file)
	counts, last := make(map[int]uint64), time.Time{}
	for i, rec := range records {
		if rec.CI.Timestamp.Before(last) {
			t.Errorf("packet %d is %v earlier than the one before", i, last.Sub(rec.CI.Timestamp))
		}
		last = rec.CI.Timestamp
		counts[rec.CI.InterfaceIndex]++
	}
	for i, name := range []string{"rx:rx0", "tx:tx0@egress"} {
		ifi, err := r.Interface(i)
		if testnet.Must(t, err); ifi.Name != name || counts[i] == 0 || ifi.Statistics.PacketsReceived != counts[i] || ifi.Statistics.PacketsDropped != 0 {
			t.Errorf("interface %s with %d packets: %+v, want %s", ifi.Name, counts[i], ifi.Statistics, name)
		}
	}
	for i := max(0, len(records)-alone); i < len(records); i++ {
		if records[i].CI.InterfaceIndex != 1 {
			t.Errorf("packet %d of %d is of the capture that has ended", i, len(records))
		}
	}
}

// Streams whose clocks differ become one sequence. One that is silent delays nothing, and one that
// breaks off is told, at once and in the end.
func TestGatherClocks(t *testing.T) {
	t.Parallel()
	const start, count = 1_800_000_000_000_000_000, 300
	stream := func(name string, ahead int64, packets int64) []byte {
		f := pcapng.AppendSection(nil, &pcapng.Section{})
		f = pcapng.AppendInterface(f, &pcapng.Interface{Name: name, LinkType: 1})
		for i := range packets {
			frame := testnet.TxToRx().UDP(uint16(1000+i), 9, fmt.Appendf(nil, "packet %d", i))
			f = pcapng.AppendPacket(f, &pcapng.Packet{Time: uint64(start + i*100e6 + ahead), WireLen: uint32(len(frame)), Data: frame})
		}
		return f
	}
	ended := make(chan struct{})
	serve := func(stream []byte) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testnet.Must(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			if conn, err := l.Accept(); err == nil {
				conn.Write(stream)
				<-ended
				conn.Close()
			}
		}()
		return l.Addr().String()
	}
	a, b, silent := stream("eth0", 0, count), stream("eth0", 37500e6, count), stream("eth0", 0, 0)
	hosts := []string{serve(a), serve(b), serve(silent), serve(a[:len(a)-10])}
	out := filepath.Join(t.TempDir(), "lines")
	lines, err := os.Create(out)
	testnet.Must(t, err)
	cmd := systest.Command(append([]string{"gather"}, hosts...)...)
	cmd.Stdout = lines
	var stderr strings.Builder
	cmd.Stderr = &stderr
	testnet.Must(t, cmd.Start())
	testnet.WaitFor(t, "the packets", func() bool {
		text, err := os.ReadFile(out)
		return err == nil && strings.Count(string(text), "\n") >= 3*count-3
	})
	close(ended)
	err = cmd.Wait()
	text := systest.Contents(t, out)
	order := regexp.MustCompile(`(?m)^(\S+ )` + regexp.QuoteMeta(hosts[0]) + `:eth0 .*\n\S+ ` + regexp.QuoteMeta(hosts[1]) + `:eth0 `)
	if n := len(order.FindAllString(text, -1)); n < count-1 {
		t.Errorf("%d of %d packets of the two hosts stand together:\n%.2000s", n, count, text)
	}
	for _, want := range []string{
		hosts[1] + " is 37.500000 s ahead of " + hosts[0] + " (",
		hosts[2] + " and " + hosts[0] + " had fewer than 3 packets in common",
		hosts[3] + " is truncated after ",
	} {
		if err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: it does not say %s:\n%s", err, want, &stderr)
		}
	}
}
