package drops

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type tally -type point way ../../bpf/way.c

// A wayMeter counts the packets of an interface at two points of their way to a socket: where the
// interface hands them to the network stack, and where the stack hands them to a socket. Its
// methods may be called concurrently, except Close.
type wayMeter struct {
	came     *ebpf.Map
	stack    *attach.Attachment
	socket   *attach.Attachment // nil: not counted, see noSocket
	noSocket error              // why packets are not counted at sockets; nil = they are
	before   wayCounts          // packets that were counted before both programs were attached
}

// wayCounts are cumulative since the end of openWayMeter. A buffer of GSO or GRO counts its
// segments.
type wayCounts struct {
	Stack  meter.Tally // packets that came to the stack: at tc ingress, right after XDP
	Socket meter.Tally // packets that came to a socket of the interface's network namespace, before its queue
}

// openWayMeter begins to count the packets that match a filter for Ethernet; nil = all. It attaches
// a program at tc ingress of the interface, which passes all packets on, and one that sees the
// packets of all sockets of the machine. If the kernel refuses the second one, that is no error:
// see noSocket.
func openWayMeter(ifi xdp.Interface, filter *filter.Program) (m *wayMeter, err error) {
	if ifi, err = xdp.EthernetInterface(ifi.Name); err != nil {
		return nil, err
	}
	m = new(wayMeter)
	if err := m.open(ifi, filter); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *wayMeter) open(ifi xdp.Interface, filter *filter.Program) error {
	spec, err := loadWay()
	if err != nil {
		return err
	}
	if err := meter.SetFilter(spec, filter); err != nil {
		return err
	}
	if err := meter.RestrictTo(ifi, spec); err != nil {
		return err
	}
	if m.came, err = ebpf.NewMap(spec.Maps[wayMapCame]); err != nil {
		return fmt.Errorf("create a map of counters: %w", err)
	}
	load := func(name string) (*ebpf.Program, error) {
		p, err := meter.LoadProgram(spec, name, map[string]*ebpf.Map{wayMapCame: m.came})
		if err != nil {
			return nil, support.ExplainLoad("load the program "+name, err)
		}
		return p, nil
	}
	atStack, err := load(wayProgXdpcapAtStack)
	if err != nil {
		return err
	}
	defer atStack.Close() // the kernel keeps an attached program
	if m.stack, err = attach.TC(ifi, atStack, tc.Ingress); err != nil {
		return err
	}
	var atSocket *ebpf.Program
	if atSocket, m.noSocket = load(wayProgXdpcapAtSock); m.noSocket == nil {
		defer atSocket.Close()
		m.socket, m.noSocket = attach.Sockets(ifi, atSocket)
	}
	m.before, err = m.Read()
	return err
}

// Read returns the counters.
func (m *wayMeter) Read() (wayCounts, error) {
	points, err := meter.ReadArray[meter.Tally](m.came)
	if err != nil {
		return wayCounts{}, fmt.Errorf("read how many packets came: %w", err)
	}
	c := wayCounts{Stack: meter.Sum(points[wayPointAT_STACK]), Socket: meter.Sum(points[wayPointAT_SOCKET])}
	c.Stack.Subtract(m.before.Stack)
	c.Socket.Subtract(m.before.Socket)
	return c, nil
}

// Check returns why packets are not counted any more at the stack; nil = they are.
func (m *wayMeter) Check() error { return m.stack.Check() }

// Close detaches the programs. It also works after open has failed: Close accepts nil attachments
// and maps.
func (m *wayMeter) Close() error {
	return errors.Join(m.stack.Close(), m.socket.Close(), m.came.Close())
}
