package drops_test

import (
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// unanswered makes TCP of the receiving side send the first packet of a connection again and again,
// to a host that does not answer. The result is how often that was.
func unanswered(t *testing.T, pair *testnet.Pair) (resent func() uint64) {
	t.Helper()
	silent := testnet.Endpoint{MAC: testnet.TxEndpoint.MAC, IPv4: net.IP{192, 0, 2, 77}}
	testnet.MustKnow(t, pair.Rx, pair.RxIndex, silent)
	var counters lost.CounterFile
	testnet.Must(t, pair.Rx.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		testnet.Must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte(silent.IPv4), Port: 7}); err != unix.EINPROGRESS {
			t.Fatal(err)
		}
		counters = lost.OpenCounters(lost.OfIP)
		return nil
	}))
	return func() uint64 {
		n, err := counters.Value("TcpRetransSegs")
		testnet.Must(t, err)
		return n
	}
}

// drops tells what TCP sends again, in its sandbox as well: as JSON, and below the table.
func TestDropsRetransmits(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	objects, object := systest.Counting(t, pair, "drops", "-i", "rx0", "--retransmits", "--interval", "100ms", "--json")
	tables, table := systest.Counting(t, pair, "drops", "-i", "rx0", "--retransmits", "--interval", "100ms")
	resent := unanswered(t, pair)
	testnet.WaitFor(t, "a retransmission", func() bool { return resent() > 0 })
	tables.Interrupt()
	objects.Interrupt()
	r := systest.LastObject[systest.DropsReport](t, object()).Retransmits
	if r == nil || r.Packets == 0 || r.NotHere+r.NotKnown != r.Packets || len(r.LostHere) > 0 {
		t.Errorf("%+v", r)
	}
	if text := table(); !strings.Contains(text, "\nretransmitted 1: 0 lost here; ") {
		t.Error(text)
	}
}

// The flight recorder writes when TCP sends something again, at the next packet that comes.
func TestRetransmitsRecorded(t *testing.T) {
	t.Parallel()
	for _, trigger := range []string{"retransmit", "retransmit>0/s"} {
		t.Run(trigger, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
			file := systest.TempFile(t)
			written := strings.Replace(file, ".pcapng", "-1.pcapng", 1)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--ring", "1M", "-w", file, "--trigger", trigger, "udp")
			sender := testnet.MustSender(t, pair)
			testnet.Must(t, sender.Send(testnet.UDPFrame(100, 0)))
			resent := unanswered(t, pair)
			testnet.WaitFor(t, "a retransmission", func() bool { return resent() > 0 })
			if systest.FileSize(written) > 0 {
				t.Errorf("%s: written too early", written)
			}
			testnet.WaitFor(t, written, func() bool {
				testnet.Must(t, sender.Send(testnet.UDPFrame(100, 1)))
				return systest.FileSize(written) > 0
			})
			if said := systest.WaitForFile(t, p, written); !strings.Contains(said, "recorded because of: "+trigger+", at ") {
				t.Error(said)
			}
			p.Interrupt()
		})
	}
}
