package sflow

import "math"

// Unknown is the value of a counter that the agent does not know.
const (
	Unknown   = math.MaxUint32
	Unknown64 = math.MaxUint64
)

// Counters are one record of a counter sample.
type Counters interface {
	record() uint32
	append([]byte) []byte
}

// MaxCounters is the largest length of a record in a counter sample, in bytes.
const MaxCounters = 8 + 4 + maxHostname + 16 + 8 + 4 + maxRelease

// CountersLength is the length of a counter sample without its records, in bytes.
const CountersLength = 8 + 12 + 4

// AppendCounters appends a counter sample. sequence is its number among those of its source.
func AppendCounters(b []byte, sequence uint32, source Source, records ...Counters) []byte {
	start := len(b)
	b = appendStart(b, sampleCounters, sequence, source)
	b = be.AppendUint32(b, uint32(len(records)))
	for _, r := range records {
		at := len(b)
		b = finish(r.append(appendRecord(b, r.record())), at)
	}
	return finish(b, start)
}

// InterfaceCounters are the counters that every kind of interface has (if_counters). Counters of
// packets are modulo 2^32.
type InterfaceCounters struct {
	Index       uint32
	Type        uint32 // IANA's ifType: 6 is Ethernet
	Speed       uint64 // bit/s; 0 = unknown
	Direction   uint32 // 0 = unknown, 1 = full duplex, 2 = half duplex
	Up, Running bool   // the administrative state and the operational one
	In, Out     Traffic
	UnknownIn   uint32 // packets of unknown protocols
	Promiscuous bool
}

// Traffic is one direction of an interface.
type Traffic struct {
	Octets                                           uint64
	Unicast, Multicast, Broadcast, Discarded, Errors uint32 // packets
}

func (*InterfaceCounters) record() uint32 { return recordInterface }

func (c *InterfaceCounters) append(b []byte) []byte {
	b = appendAll(b, c.Index, c.Type)
	b = be.AppendUint64(b, c.Speed)
	b = appendAll(b, c.Direction, flag(c.Up)|flag(c.Running)<<1)
	b = appendTraffic(b, &c.In)
	b = be.AppendUint32(b, c.UnknownIn)
	b = appendTraffic(b, &c.Out)
	return be.AppendUint32(b, flag(c.Promiscuous))
}

func appendTraffic(b []byte, t *Traffic) []byte {
	b = be.AppendUint64(b, t.Octets)
	return appendAll(b, t.Unicast, t.Multicast, t.Broadcast, t.Discarded, t.Errors)
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// A Host describes a machine (host_descr).
type Host struct {
	Name    string // truncated to 64 bytes
	UUID    [16]byte
	Machine Machine
	Release string // of its Linux kernel; truncated to 32 bytes
}

// A Machine is a kind of CPU.
type Machine uint32

// Kinds of CPUs.
const (
	MachineUnknown Machine = 0
	MachineOther   Machine = 1
	MachineX86_64  Machine = 3
	MachineARM     Machine = 10
)

const (
	maxHostname = 64
	maxRelease  = 32
	osLinux     = 2
)

func (*Host) record() uint32 { return recordHost }

func (h *Host) append(b []byte) []byte {
	b = append(appendText(b, h.Name, maxHostname), h.UUID[:]...)
	b = appendAll(b, uint32(h.Machine), osLinux)
	return appendText(b, h.Release, maxRelease)
}

// HostCPU is the load of a machine's CPUs (host_cpu). Times are sums over all CPUs, in milliseconds
// since the machine started, modulo 2^32.
type HostCPU struct {
	Load             [3]float32 // over 1, 5 and 15 minutes
	Running, Threads uint32
	CPUs, MHz        uint32
	Uptime           uint32 // seconds

	User, Nice, System, Idle, Waiting, Interrupts, SoftInterrupts uint32

	InterruptCount, ContextSwitches uint32
	Stolen, Guest, GuestNice        uint32 // milliseconds
}

func (*HostCPU) record() uint32 { return recordHostCPU }

func (c *HostCPU) append(b []byte) []byte {
	for _, load := range c.Load {
		b = be.AppendUint32(b, math.Float32bits(load))
	}
	b = appendAll(b, c.Running, c.Threads, c.CPUs, c.MHz, c.Uptime)
	b = appendAll(b, c.User, c.Nice, c.System, c.Idle, c.Waiting, c.Interrupts, c.SoftInterrupts)
	b = appendAll(b, c.InterruptCount, c.ContextSwitches)
	return appendAll(b, c.Stolen, c.Guest, c.GuestNice)
}

// HostMemory is the memory of a machine, in bytes, and what was moved to and from disks since it
// started, in pages modulo 2^32 (host_memory).
type HostMemory struct {
	Total, Free, Shared, Buffers, Cached, SwapTotal, SwapFree uint64

	PagesIn, PagesOut, SwappedIn, SwappedOut uint32
}

func (*HostMemory) record() uint32 { return recordHostMemory }

func (m *HostMemory) append(b []byte) []byte {
	for _, v := range []uint64{m.Total, m.Free, m.Shared, m.Buffers, m.Cached, m.SwapTotal, m.SwapFree} {
		b = be.AppendUint64(b, v)
	}
	return appendAll(b, m.PagesIn, m.PagesOut, m.SwappedIn, m.SwappedOut)
}

// HostNetwork is the traffic of a machine's interfaces together (host_net_io).
type HostNetwork struct{ In, Out HostTraffic }

// HostTraffic is one direction of a HostNetwork. Packets are modulo 2^32.
type HostTraffic struct {
	Octets                     uint64
	Packets, Errors, Discarded uint32
}

func (*HostNetwork) record() uint32 { return recordHostNetwork }

func (n *HostNetwork) append(b []byte) []byte {
	for _, t := range []HostTraffic{n.In, n.Out} {
		b = appendAll(be.AppendUint64(b, t.Octets), t.Packets, t.Errors, t.Discarded)
	}
	return b
}
