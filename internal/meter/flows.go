package meter

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Flow is one direction of a conversation. The ports are 0 if the protocol has none, and in all
// fragments but the first.
type Flow struct {
	Class               Class // of IPv4 or IPv6
	Source, Destination netip.AddrPort
}

// Compare orders flows by source, destination and class.
func (f Flow) Compare(other Flow) int {
	return cmp.Or(
		f.Source.Compare(other.Source),
		f.Destination.Compare(other.Destination),
		cmp.Compare(f.Class, other.Class),
	)
}

// FlowOf finds the flow of a packet: its IP addresses after any VLAN tags, the protocol after
// extension headers, and the ports of TCP, UDP, SCTP and the like. Fragments have no ports, so that
// all of them are in one flow. It returns false if there is no IP header.
func FlowOf(typ headers.Link, packet []byte) (flow Flow, ok bool) {
	var h headers.Headers
	class := ClassOf(typ, packet, &h)
	if h.Family == 0 {
		return flow, false
	}
	from, to := h.Ports()
	return Flow{Class: class, Source: netip.AddrPortFrom(h.Source, from), Destination: netip.AddrPortFrom(h.Destination, to)}, true
}

// NoVerdict is the verdict of packets that no traced program has decided about.
const NoVerdict = xdp.Verdict(xdp.VerdictSlots)

// A FlowEntry has the packets of a flow that got the same verdict and were counted on one CPU. The
// flow had at least the packets and bytes in Counted, and at most those of Error in addition.
type FlowEntry struct {
	Flow    Flow
	Verdict xdp.Verdict // or xdp.UnknownVerdict, or NoVerdict; package drops stores its lost.Reason here
	Counted Tally       // exact, since the flow got the entry
	Error   Tally       // the upper bound of earlier packets; constant while the flow has the entry
}

// A FlowBucket has one CPU's entries for flows with the same hash. A flow has the same bucket on
// all CPUs, and the same index in it as long as it has the entry.
type FlowBucket struct {
	Entries []FlowEntry
	Missed  Tally // upper bound for each flow without an entry in this bucket, on this CPU
}

// FlowOverflow counts evicted flows, and their packets. It is cumulative.
type FlowOverflow struct {
	Flows uint64 // evictions: a flow lost its entry to another one
	Tally        // packets of these flows while they had their entries
	Most  Tally  // upper bound for each flow without an entry on any CPU
}

// FlowCounts is the result of FlowTable.Read, cumulative. The caller owns it.
type FlowCounts struct {
	Flows    [][]FlowBucket // by CPU, then by bucket; nil = flows are not counted
	Overflow FlowOverflow
}

// Flow tables have flowEntries entries, divided among the CPUs. No CPU has fewer than
// minFlowEntries or more than maxFlowEntries, so that its table fits into its cache. An entry takes
// 100 bytes.
const (
	flowEntries    = 65536
	minFlowEntries = 2048
	maxFlowEntries = 16384
)

// flowWays is the number of entries in a bucket.
const flowWays = len(protocolsFlowBucket{}.Entries)

// flowBuckets returns the number of buckets of each CPU: a power of two.
func flowBuckets(cpus int) int {
	entries := min(max(flowEntries/cpus, minFlowEntries), maxFlowEntries)
	return 1 << (bits.Len(uint(entries/flowWays)) - 1)
}

// SizeFlows sizes the table of flows of a program that includes bpf/include/flows.h, and seeds the
// hash that assigns flows to buckets. buckets is the number for each CPU, a power of two; 0 = so
// many that a CPU's table fits into its cache.
func SizeFlows(spec *ebpf.CollectionSpec, buckets int) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	buckets = cmp.Or(buckets, flowBuckets(cpus))
	spec.Maps[protocolsMapFlows].MaxEntries = uint32(cpus * buckets)
	seeds := make([]uint64, spec.Variables[protocolsVarFlowSeeds].Size()/8)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	return attach.Set(spec, map[string]any{protocolsVarFlowBuckets: uint32(buckets), protocolsVarFlowSeeds: seeds})
}

// A FlowTable is the memory of a map `flows`, which the kernel's programs write to. The zero value
// is an empty table.
type FlowTable struct {
	mem           []byte // nil: flows are not counted
	cpus, buckets int
}

const bucketSize = int(unsafe.Sizeof(protocolsFlowBucket{}))

// OpenFlowTable maps a table that SizeFlows has sized.
func OpenFlowTable(m *ebpf.Map) (t FlowTable, err error) {
	if t.cpus, err = ebpf.PossibleCPU(); err != nil {
		return t, err
	}
	t.buckets = int(m.MaxEntries()) / t.cpus
	size := (t.cpus*t.buckets*bucketSize + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	if t.mem, err = unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return t, fmt.Errorf("map the tables of flows of %d CPUs into memory: %w", t.cpus, os.NewSyscallError("mmap", err))
	}
	return t, nil
}

// Close releases the memory. No method may be called after it.
func (t *FlowTable) Close() error {
	if t.mem == nil {
		return nil
	}
	return unix.Munmap(t.mem)
}

// Read reads all entries. It may be called concurrently.
func (t *FlowTable) Read() (FlowCounts, error) {
	if t.mem == nil {
		return FlowCounts{}, nil
	}
	var o FlowOverflow
	most := make([]Tally, t.buckets)
	byCPU := make([][]FlowBucket, t.cpus)
	for cpu := range byCPU {
		byCPU[cpu] = make([]FlowBucket, t.buckets)
		for b := range t.buckets {
			var read protocolsFlowBucket
			if err := t.readBucket(cpu*t.buckets+b, &read); err != nil {
				return FlowCounts{}, err
			}
			byCPU[cpu][b] = newFlowBucket(&read)
			o.Flows += read.Evictions
			o.Tally.Add(tallyOf(read.Evicted))
			most[b].Add(byCPU[cpu][b].Missed)
		}
	}
	for _, m := range most {
		o.Most = Tally{max(o.Most.Packets, m.Packets), max(o.Most.Bytes, m.Bytes)}
	}
	return FlowCounts{byCPU, o}, nil
}

var errBusyBucket = errors.New("an entry of the table of flows keeps changing")

// readBucket copies a bucket at a moment when the kernel does not assign an entry to another flow:
// it does so between two increments of Version, which is odd meanwhile. Counters may rise.
func (t *FlowTable) readBucket(i int, into *protocolsFlowBucket) error {
	shared := (*protocolsFlowBucket)(unsafe.Pointer(&t.mem[i*bucketSize]))
	for range 1 << 20 {
		before := atomic.LoadUint64(&shared.Version)
		if before%2 == 0 {
			*into = *shared
			// Adding 0 is a memory barrier, and a load is not: the copy is complete before it.
			if atomic.AddUint64(&shared.Version, 0) == before {
				return nil
			}
		}
		runtime.Gosched()
	}
	return errBusyBucket
}

func newFlowBucket(read *protocolsFlowBucket) FlowBucket {
	b := FlowBucket{Missed: tallyOf(read.Missed)}
	for i, tag := range read.Tags {
		if tag == 0 {
			break // entries are filled in order
		}
		e := &read.Entries[i]
		b.Entries = append(b.Entries, FlowEntry{newFlow(e.Flow), xdp.Verdict(e.Label), tallyOf(e.Counted), tallyOf(e.Error)})
	}
	return b
}

func tallyOf(t protocolsTally) Tally { return Tally{t.Packets, t.Bytes} }

// LookupFlow returns a flow that a map has as a value.
func LookupFlow(m *ebpf.Map, key any) (f Flow, ok bool) {
	var value protocolsFlow
	if m.Lookup(key, &value) != nil {
		return f, false
	}
	return newFlow(value), true
}

// newFlow converts a flow, whose addresses and ports are in network byte order. Only little-endian
// machines are supported.
func newFlow(f protocolsFlow) Flow {
	address := func(words [2]uint64) netip.Addr {
		bytes := *(*[16]byte)(unsafe.Pointer(&words))
		if Class(f.Class).Family() == "ipv4" {
			return netip.AddrFrom4([4]byte(bytes[:4]))
		}
		return netip.AddrFrom16(bytes)
	}
	return Flow{
		Class:       Class(f.Class),
		Source:      netip.AddrPortFrom(address(f.Source), bits.ReverseBytes16(f.SourcePort)),
		Destination: netip.AddrPortFrom(address(f.Destination), bits.ReverseBytes16(f.DestinationPort)),
	}
}
