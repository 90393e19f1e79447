// Package way counts the packets of an interface at two points of their way to a socket: where the
// interface hands them to the network stack, and where that hands them to a socket. With the losses
// in between, which package drops counts, this shows where packets remain.
package way

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

// A Meter counts. Its methods may be called concurrently, except Close.
type Meter struct {
	came     *ebpf.Map
	stack    *attach.Attachment
	socket   *attach.Attachment // nil: unknown, see NoSocket
	noSocket error
	before   Counts // what was counted before both programs were attached
}

// Counts are cumulative since the end of Open. A buffer of GSO or GRO counts its segments.
type Counts struct {
	Stack  meter.Tally // that came to the stack: at tc ingress, after XDP and before all else
	Socket meter.Tally // that came to a socket of the interface's network namespace, before its queue
}

// Open begins to count the packets that a filter for Ethernet takes; nil = all. It attaches a
// program at tc ingress of the interface, which passes all packets on, and none at its XDP hook.
// Another one sees what all sockets of the machine receive. It is no error if the kernel refuses
// the second one: see NoSocket.
func Open(ifi xdp.Interface, filter *filter.Program) (m *Meter, err error) {
	if ifi, err = xdp.EthernetInterface(ifi.Name); err != nil {
		return nil, err
	}
	m = new(Meter)
	if err := m.open(ifi, filter); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Meter) open(ifi xdp.Interface, filter *filter.Program) error {
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
func (m *Meter) attach(spec *ebpf.CollectionSpec, name string, attach func(*ebpf.Program) (*attach.Attachment, error)) (*attach.Attachment, error) {
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
func (m *Meter) NoSocket() error { return m.noSocket }

// Read returns the counters.
func (m *Meter) Read() (Counts, error) {
	slots, err := meter.ReadArray[wayTally](m.came)
	if err != nil {
		return Counts{}, fmt.Errorf("read how many packets came: %w", err)
	}
	var sums [wayPointPOINTS]meter.Tally
	for point, perCPU := range slots {
		for _, t := range perCPU {
			sums[point].Add(meter.Tally{Packets: t.Packets, Bytes: t.Bytes})
		}
	}
	return Counts{Stack: sums[wayPointAT_STACK], Socket: sums[wayPointAT_SOCKET]}.since(m.before), nil
}

func (c Counts) since(before Counts) Counts {
	c.Stack.Subtract(before.Stack)
	c.Socket.Subtract(before.Socket)
	return c
}

// Check returns why packets are not counted any more at the stack; nil = they are.
func (m *Meter) Check() error { return m.stack.Check() }

// Close detaches the programs.
func (m *Meter) Close() error {
	return errors.Join(m.stack.Close(), m.socket.Close(), m.came.Close())
}
