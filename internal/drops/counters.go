package drops

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

// Counters are the kernel's own, by name: as `nstat -a` names them, "TcpExtListenDrops", and those
// of conntrack and of devices as "conntrack drop", "eth0 tx_dropped" and "eth0 qdisc_drops".
type Counters map[string]uint64

// since is how the counters rose. A counter that did not is omitted.
func (c Counters) since(before Counters) Counters {
	rose := make(Counters)
	for name, now := range c {
		if n := rise(before[name], now); n > 0 {
			rose[name] = n
		}
	}
	return rose
}

// The files with the counters of a network namespace, below /proc/net. The kernel has those of SCTP
// and conntrack only while these modules are loaded.
const (
	fileOfTCP       = "netstat"
	fileOfConntrack = "stat/nf_conntrack"
)

var counterFiles = []string{"snmp", "snmp6", fileOfTCP, "xfrm_stat", "sctp/snmp", fileOfConntrack}

// A counterFile has counters of the network namespace in which it was opened. Its methods may be
// called concurrently, except close.
type counterFile struct {
	file  io.ReaderAt
	first Counters // when it was opened

	mu *sync.Mutex // one reader at a time: the kernel writes the file anew for another one
}

// openCounterFile opens a file of the calling thread's network namespace. If this kernel does not
// have it, it has no counters.
func openCounterFile(name string) counterFile {
	f := counterFile{strings.NewReader(""), make(Counters), new(sync.Mutex)}
	if file, err := os.Open("/proc/thread-self/net/" + name); err == nil {
		f.file = file
	}
	f.read(f.first)
	return f
}

// read adds the counters as they are now.
func (f counterFile) read(all Counters) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := io.ReadAll(io.NewSectionReader(f.file, 0, 1<<20))
	if err == nil {
		parseCounters(string(text), all)
	}
}

// rose returns how the counters rose since the file was opened.
func (f counterFile) rose() Counters {
	now := make(Counters)
	f.read(now)
	return now.since(f.first)
}

func (f counterFile) close() error {
	if c, ok := f.file.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// parseCounters adds the counters of one of these files. There are three formats: pairs of a line
// of names and a line of values, both after the protocol's name and a colon; a line for each
// counter; and, of conntrack, a line of names and one of hexadecimal values for each CPU.
func parseCounters(text string, all Counters) {
	var names []string
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
			for i := 1; i < min(len(names), len(fields)); i++ { // each CPU has the number of all entries
				all.add("conntrack "+names[i], fields[i], 16)
			}
		default:
			all.add(fields[0], fields[1], 10)
		}
	}
}

// add adds a value. Some are no counters, and negative.
func (c Counters) add(name, value string, base int) {
	if n, err := strconv.ParseUint(value, base, 64); err == nil {
		c[name] += n
	}
}

// addDevices adds the counters of each interface in the calling thread's network namespace, and of
// its queue: of the queue at the root, because the kernel counts there what those below it drop.
func (c Counters) addDevices() error {
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
			c[a.Name+" rx_missed"] = max(s.RxMissedErrors, s.RxFifoErrors, s.RxOverErrors) // see cardState
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
