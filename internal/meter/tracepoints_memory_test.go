package meter

import (
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kernel makes a page pool for each run of live frames, and disconnects it at the end. It belongs to no
// interface. Other such runs on the machine count, too. Connecting one takes a driver that has page pools,
// which veth has not: of that, the test can only see that it is waited for.
func TestMemDisconnect(t *testing.T) {
	testnet.RequireLiveFrames(t)
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Drop)))
	all, restricted := n.openAll(TracepointOptions{}), n.open(TracepointOptions{})
	if !slices.Contains(all.Events(), MemConnect) {
		t.Errorf("events %v", all.Events())
	}
	g, err := testnet.NewGenerator(n.pair)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	o := testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: frames, CPU: -1}
	if _, err := g.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	n.wait(all, func(c map[Case]EventCount) bool {
		return c[Case{Event: MemDisconnect, Memory: 2}].Events > 0
	})
	n.expect(restricted, map[Case]EventCount{})
}
