package systest

import (
	"errors"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Ways are actions by which vmxnet3 loses an XDP program.
var Ways = map[string]func(netlink.Link) error{
	"down and up": func(l netlink.Link) error { return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetUp(l)) },
	"MTU":         func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1400) },
	"ring":        func(l netlink.Link) error { return testnet.HalveRing(l.Attrs().Name) },
}

// A LosingCard is a pair of cards, of which the receiver loses the programs of processes.
type LosingCard struct {
	*testnet.Pair
	Sent   uint64 // packets
	sender *testnet.Sender
}

// MustLosingCard makes a pair of the emulated machine's cards. On other machines it skips the test.
func MustLosingCard(t *testing.T) *LosingCard {
	t.Helper()
	pair := testnet.MustCardsOf(t, "vmxnet3", testnet.PairOptions{})
	return &LosingCard{Pair: pair, sender: testnet.MustSender(t, pair)}
}

// Send sends UDP packets to a port, slowly: at once they would not fit into the card's ring.
func (c *LosingCard) Send(t *testing.T, n int, port uint16) {
	t.Helper()
	for range n {
		testnet.Must(t, c.sender.Send(testnet.TxToRx().UDP(1000, port, make([]byte, 100))))
		c.Sent++
		time.Sleep(5 * time.Millisecond)
	}
}

// attachedAgain matches the notice of a lost program, with the number of packets.
var attachedAgain = regexp.MustCompile(`xdpcap: of the last (\d+) packets that rx0 has received, its XDP hook has seen none, as if the driver had lost the program: it is attached again\n`)

// Lose lets the card lose the program of a process, which has seen packets, and sends others until
// the process has attached it again. It returns how many packets have passed by, by the process's
// own count.
func (c *LosingCard) Lose(t *testing.T, p *Process, way func(netlink.Link) error) (missed uint64) {
	t.Helper()
	InRx(t, c.Pair, way)
	testnet.WaitFor(t, "the notice", func() bool {
		c.Send(t, 1, testnet.DropPort)
		return attachedAgain.MatchString(p.Stderr())
	})
	missed, _ = strconv.ParseUint(attachedAgain.FindStringSubmatch(p.Stderr())[1], 10, 64)
	if missed == 0 {
		t.Error("no packet has passed by")
	}
	return missed
}
