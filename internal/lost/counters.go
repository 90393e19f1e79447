package lost

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
)

// Counters are the kernel's own, by name: as `nstat -a` names them, such as "TcpExtListenDrops".
// Others are "conntrack drop", "softnet full", "eth0 tx_dropped" and "eth0 qdisc_drops".
type Counters map[string]uint64

// Since returns by how much the counters rose, without counters that did not.
func (c Counters) Since(before Counters) Counters {
	rose := make(Counters)
	for name, now := range c {
		if n := Rise(before[name], now); n > 0 {
			rose[name] = n
		}
	}
	return rose
}

// The files with the counters of a network namespace, below /proc/net, and one for the whole
// machine. The kernel has those of SCTP and conntrack only while these modules are loaded.
const (
	OfIP        = "snmp" // and those of TCP, UDP and ICMP that are in SNMP's MIBs
	OfTCP       = "netstat"
	OfIPsec     = "xfrm_stat"
	OfConntrack = "stat/nf_conntrack"
	OfSoftnet   = "softnet_stat" // of the whole machine: each CPU's queue of received packets
)

// CounterFiles are all files with the counters of a network namespace.
var CounterFiles = []string{OfIP, "snmp6", OfTCP, OfIPsec, "sctp/snmp", OfConntrack}

// A CounterFile has counters of the network namespace in which it was opened. Reading it takes no
// privileges. Its methods may be called concurrently, except Close.
type CounterFile struct {
	file  io.ReaderAt
	first Counters // when it was opened

	mu *sync.Mutex // guards file: the kernel generates its text anew for each reader
}

// OpenCounters opens a file of the calling thread's network namespace. If the kernel lacks the
// file, it has no counters.
func OpenCounters(name string) CounterFile {
	f := CounterFile{strings.NewReader(""), make(Counters), new(sync.Mutex)}
	if file, err := os.Open("/proc/thread-self/net/" + name); err == nil {
		f.file = file
	}
	f.Read(f.first)
	return f
}

// Read adds the current counters to all.
func (f CounterFile) Read(all Counters) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := io.ReadAll(io.NewSectionReader(f.file, 0, 1<<20))
	if err == nil {
		parseCounters(string(text), all)
	}
}

// Value returns the current value of one counter.
func (f CounterFile) Value(name string) (uint64, error) {
	now := make(Counters)
	f.Read(now)
	n, ok := now[name]
	if !ok {
		return 0, fmt.Errorf("the kernel has no counter %s", name)
	}
	return n, nil
}

// Rose returns by how much the counters rose since the file was opened.
func (f CounterFile) Rose() Counters {
	now := make(Counters)
	f.Read(now)
	return now.Since(f.first)
}

// Close closes the file.
func (f CounterFile) Close() error {
	if c, ok := f.file.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// parseCounters adds the counters of one of these files. There are four formats:
//   - pairs of a line of names and a line of values, both after the protocol's name and a colon;
//   - a line for each counter;
//   - of conntrack, a line of names that begins with "entries", and a line of hexadecimal values
//     for each CPU;
//   - of softnet, a line of hexadecimal values for each CPU, of which the second and third count.
func parseCounters(text string, all Counters) {
	var names []string // of the values in the following lines; nil = the names are not in a line
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		protocol, isProtocol := strings.CutSuffix(fields[0], ":")
		switch {
		case isProtocol && names == nil:
			names = fields
		case isProtocol:
			for i := 1; i < min(len(names), len(fields)); i++ {
				all.add(protocol+names[i], fields[i], 10)
			}
			names = nil
		case fields[0] == "entries":
			names = fields
		case names != nil:
			for i := 1; i < min(len(names), len(fields)); i++ { // the first, entries, is the same for each CPU
				all.add("conntrack "+names[i], fields[i], 16)
			}
		case len(fields) > 2:
			all.add("softnet full", fields[1], 16)
			all.add("softnet squeezed", fields[2], 16)
		default:
			all.add(fields[0], fields[1], 10)
		}
	}
}

// add adds a value, unless it is negative: such a value is a setting and no counter.
func (c Counters) add(name, value string, base int) {
	if n, err := strconv.ParseUint(value, base, 64); err == nil {
		c[name] += n
	}
}

// AddDevices adds the counters of each interface in the calling thread's network namespace, and of
// its root qdisc, where the kernel also counts the drops of the qdiscs below.
func (c Counters) AddDevices() error {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list the interfaces: %w", err)
	}
	queues, err := netlink.QdiscList(nil)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list the queues of interfaces: %w", err)
	}
	names := make(map[int]string)
	for _, l := range links {
		a := l.Attrs()
		names[a.Index] = a.Name
		if s := a.Statistics; s != nil {
			c[a.Name+" rx_dropped"] = s.RxDropped
			c[a.Name+" rx_errors"] = s.RxErrors
			c[a.Name+" rx_missed"] = max(s.RxMissedErrors, s.RxFifoErrors, s.RxOverErrors) // a driver may count one loss in several
			c[a.Name+" tx_dropped"] = s.TxDropped
			c[a.Name+" tx_errors"] = s.TxErrors
		}
	}
	for _, q := range queues {
		a := q.Attrs()
		if name, s := names[a.LinkIndex], a.Statistics; name != "" && s != nil && s.Queue != nil && a.Parent == netlink.HANDLE_ROOT {
			c[name+" qdisc_drops"] += uint64(s.Queue.Drops)
		}
	}
	return nil
}

// Rise returns by how much a counter rose. A counter that fell was reset to zero in between, as
// some drivers do when they are reconfigured.
func Rise(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}
