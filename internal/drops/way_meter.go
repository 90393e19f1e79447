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
// interface hands them to the network stack, and where that hands them to a socket. With the losses
// in between this shows where packets remain. Its methods may be called concurrently, except Close.
type wayMeter struct {
	came     *ebpf.Map
	stack    *attach.Attachment
	socket   *attach.Attachment // nil: unknown, see NoSocket
	noSocket error
	before   wayCounts // what was counted before both programs were attached
}

// wayCounts are cumulative since the end of openWayMeter. A buffer of GSO or GRO counts its
// segments.
type wayCounts struct {
	Stack  meter.Tally // that came to the stack: at tc ingress, after XDP and before all else
	Socket meter.Tally // that came to a socket of the interface's network namespace, before its queue
}

// openWayMeter begins to count the packets that a filter for Ethernet takes; nil = all. It attaches
// a program at tc ingress of the interface, which passes all packets on, and none at its XDP hook.
// Another one sees what all sockets of the machine receive. It is no error if the kernel refuses
// the second one: see NoSocket.
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
	m.stack, err = m.attach(spec, wayProgXdpcapAtStack, func(p *ebpf.Program) (*attach.Attachment, error) {
		return attach.TC(ifi, p, tc.Ingress)
	})
	if err != nil {
		return err
	}
	m.socket, m.noSocket = m.attach(spec, wayProgXdpcapAtSock, func(p *ebpf.Program) (*attach.Attachment, error) {
		return attach.Sockets(ifi, p)
	})
	m.before, err = m.Read()
	return err
}

// attach loads one program, with the map of counters, and attaches it.
func (m *wayMeter) attach(spec *ebpf.CollectionSpec, name string, attach func(*ebpf.Program) (*attach.Attachment, error)) (*attach.Attachment, error) {
	only := spec.Copy()
	only.Programs = map[string]*ebpf.ProgramSpec{name: only.Programs[name]}
	if err := xdp.Alone(only.Programs[name]); err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{wayMapCame: m.came}, Cache: xdp.KernelTypes(),
	})
	if err != nil {
		return nil, support.ExplainLoad("load the program "+name, err)
	}
	defer coll.Close() // the kernel keeps an attached program
	return attach(coll.Programs[name])
}

// NoSocket returns why packets are not counted at sockets; nil = they are.
func (m *wayMeter) NoSocket() error { return m.noSocket }

// Read returns the counters.
func (m *wayMeter) Read() (wayCounts, error) {
	slots, err := meter.ReadArray[wayTally](m.came)
	if err != nil {
		return wayCounts{}, fmt.Errorf("read how many packets came: %w", err)
	}
	var sums [wayPointPOINTS]meter.Tally
	for point, perCPU := range slots {
		for _, t := range perCPU {
			sums[point].Add(meter.Tally{Packets: t.Packets, Bytes: t.Bytes})
		}
	}
	return wayCounts{Stack: sums[wayPointAT_STACK], Socket: sums[wayPointAT_SOCKET]}.since(m.before), nil
}

func (c wayCounts) since(before wayCounts) wayCounts {
	c.Stack.Subtract(before.Stack)
	c.Socket.Subtract(before.Socket)
	return c
}

// Check returns why packets are not counted any more at the stack; nil = they are.
func (m *wayMeter) Check() error { return m.stack.Check() }

// Close detaches the programs.
func (m *wayMeter) Close() error {
	return errors.Join(m.stack.Close(), m.socket.Close(), m.came.Close())
}
