package drops_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// In its sandbox, too, drops names who has lost packets: rules of nf_tables and iptables, a socket,
// a missing route. It does so of one interface and of all.
func TestCulprits(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"nft", "iptables-legacy"} {
		testnet.Require(t, tool)
	}
	for name, flags := range map[string][]string{"one": {"-i", "rx0"}, "all": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const sent = 20
			comm, err := os.ReadFile("/proc/self/comm")
			testnet.Must(t, err)
			owner := fmt.Sprintf("%s[%d]", strings.TrimSpace(string(comm)), os.Getpid())
			pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
			testnet.MustKnow(t, pair.Rx, pair.RxIndex, testnet.TxEndpoint)
			var conn *net.UDPConn
			testnet.Must(t, pair.Rx.Do(func() (err error) {
				for _, command := range [][]string{
					{"nft", "table ip t { chain c { type filter hook input priority 0; udp dport 7 counter drop; }; }"},
					{"iptables-legacy", "-A", "INPUT", "-p", "udp", "--dport", "8", "-j", "DROP"},
				} {
					if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
						return fmt.Errorf("%v: %w: %s", command, err, out)
					}
				}
				conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: 7000})
				return err
			}))
			defer conn.Close()
			testnet.Must(t, conn.SetReadBuffer(1))
			p, output := systest.Counting(t, pair, append([]string{"drops", "--interval", "100ms", "--json"}, flags...)...)
			for _, port := range []uint16{7, 8, 7000} {
				for range sent {
					testnet.Send(t, pair, testnet.TxToRx().UDP(1000, port, make([]byte, 100)))
				}
			}
			testnet.WaitHandled(t)
			p.Interrupt()
			r := systest.LastObject[systest.DropsReport](t, output())
			wanted := map[string]uint64{
				"nft ip t c, handle 2: udp dport 7 drop":                  sent,
				"iptables filter INPUT, rule 1: -p udp --dport 8 -j DROP": sent,
				owner + " :7000, receive buffer 2.2 KiB":                  0,
			}
			for _, l := range r.Losses {
				for _, e := range l.Evidence {
					want, ok := wanted[e.Text]
					if ok && e.Counter != "" && (want == e.Packets || want == 0 && e.Packets == l.Packets && e.Process == owner) {
						delete(wanted, e.Text)
					}
				}
			}
			if len(wanted) > 0 {
				t.Errorf("no %v in %+v", wanted, r.Losses)
			}
		})
	}
}
