package meter

import (
	"encoding/binary"
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

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Flow is one direction of a conversation. The ports are 0 where the protocol has none, and in
// all fragments of a packet but the first.
type Flow struct {
	Class               Class // of IPv4 or IPv6
	Source, Destination netip.AddrPort
}

// NoVerdict is the verdict of packets that no program has decided about, where none is traced.
const NoVerdict = xdp.Verdict(xdp.VerdictSlots)

// A FlowEntry has the packets of a flow that got the same verdict and were counted on one CPU. The
// flow had at least the packets and bytes in Counted, and at most those of Error besides.
type FlowEntry struct {
	Flow    Flow
	Verdict xdp.Verdict // xdp.UnknownVerdict for all that the kernel does not know; NoVerdict
	Counted Tally       // since the flow has the entry; this is exact
	Error   Tally       // the most that it may have had before, which does not change meanwhile
}

// A FlowBucket has the entries that a CPU has for flows with the same hash. A flow has the same
// bucket on all CPUs, and the same place in it as long as it has the entry.
type FlowBucket struct {
	Entries []FlowEntry
	Missed  Tally // the most that a flow without an entry here may have had on this CPU
}

// FlowOverflow says what the tables of flows could not keep. It is cumulative.
type FlowOverflow struct {
	Flows uint64 // flows that lost their entry to another one; one that lost it twice counts twice
	Tally        // what these flows had while they had their entries
	Most  Tally  // a flow that has no entry on any CPU had no more packets and no more bytes than this
}

// Flow tables have room for flowEntries flows, divided among the CPUs, but no CPU has less than
// minFlowEntries or more than maxFlowEntries, so that a table fits into a CPU's cache. An entry
// takes 100 bytes.
const (
	flowEntries    = 65536
	minFlowEntries = 2048
	maxFlowEntries = 16384
)

// flowWays is how many entries a bucket has.
const flowWays = len(protocolsFlowBucket{}.Entries)

// flowBuckets returns how many buckets each CPU has: a power of two.
func flowBuckets(cpus int) int {
	entries := min(max(flowEntries/cpus, minFlowEntries), maxFlowEntries)
	return 1 << (bits.Len(uint(entries/flowWays)) - 1)
}

// describeFlows makes a table with as many buckets for each CPU, a power of two.
func describeFlows(spec *ebpf.CollectionSpec, cpus, buckets int) error {
	spec.Maps[protocolsMapFlows].MaxEntries = uint32(cpus * buckets)
	var seeds [11]uint64
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	for name, value := range map[string]any{protocolsVarFlowBuckets: uint32(buckets), protocolsVarFlowSeeds: seeds} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// A flowTable is the memory of the map `flows`, which the kernel's programs write to.
type flowTable struct {
	mem           []byte // nil: flows are not counted
	cpus, buckets int
}

const bucketSize = int(unsafe.Sizeof(protocolsFlowBucket{}))

func mapFlows(m *ebpf.Map, cpus int) (t flowTable, err error) {
	t.cpus, t.buckets = cpus, int(m.MaxEntries())/cpus
	size := (t.cpus*t.buckets*bucketSize + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	if t.mem, err = unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return t, fmt.Errorf("map the tables of flows of %d CPUs into memory: %w", cpus, os.NewSyscallError("mmap", err))
	}
	return t, nil
}

func (t *flowTable) close() error {
	if t.mem == nil {
		return nil
	}
	return unix.Munmap(t.mem)
}

// read returns the buckets, by CPU, and what they could not keep.
func (t *flowTable) read() ([][]FlowBucket, FlowOverflow, error) {
	if t.mem == nil {
		return nil, FlowOverflow{}, nil
	}
	var o FlowOverflow
	most := make([]Tally, t.buckets)
	byCPU := make([][]FlowBucket, t.cpus)
	for cpu := range byCPU {
		byCPU[cpu] = make([]FlowBucket, t.buckets)
		for b := range t.buckets {
			var read protocolsFlowBucket
			if err := t.readBucket(cpu*t.buckets+b, &read); err != nil {
				return nil, o, err
			}
			byCPU[cpu][b] = newFlowBucket(&read)
			o.Flows += read.Evictions
			o.Tally.Add(Tally(tallyOf(read.Evicted)))
			most[b].Add(byCPU[cpu][b].Missed)
		}
	}
	for _, t := range most {
		o.Most.Packets = max(o.Most.Packets, t.Packets)
		o.Most.Bytes = max(o.Most.Bytes, t.Bytes)
	}
	return byCPU, o, nil
}

var errBusyBucket = errors.New("an entry of the table of flows changes hands without end")

// readBucket copies a bucket when none of its entries changes hands. The counters in it may go on
// meanwhile.
func (t *flowTable) readBucket(i int, into *protocolsFlowBucket) error {
	shared := (*protocolsFlowBucket)(unsafe.Pointer(&t.mem[i*bucketSize]))
	for range 1 << 20 {
		before := atomic.LoadUint64(&shared.Version)
		if before%2 == 0 {
			*into = *shared
			// To add nothing is a barrier, which to load is not: the copy is complete before.
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
			break // entries are taken in their order
		}
		e := &read.Entries[i]
		b.Entries = append(b.Entries, FlowEntry{newFlow(e.Flow), xdp.Verdict(e.Verdict), tallyOf(e.Counted), tallyOf(e.Error)})
	}
	return b
}

func tallyOf(t protocolsTally) Tally { return Tally{t.Packets, t.Bytes} }

func newFlow(f protocolsFlow) Flow {
	address := func(words [2]uint64) netip.Addr {
		bytes := *(*[16]byte)(unsafe.Pointer(&words)) // in network byte order, as in the packet
		if Class(f.Class).Family() == "ipv4" {
			return netip.AddrFrom4([4]byte(bytes[:4]))
		}
		return netip.AddrFrom16(bytes)
	}
	port := func(p uint16) uint16 {
		return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, p))
	}
	return Flow{
		Class:       Class(f.Class),
		Source:      netip.AddrPortFrom(address(f.Source), port(f.SourcePort)),
		Destination: netip.AddrPortFrom(address(f.Destination), port(f.DestinationPort)),
	}
}
