package capture

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
)

// A Day is a session without programs. Interfaces come and go one after the other, a few at a time.
// Each has one captured packet, which carries the interface's number, and 1 to 3 packets that the
// filter rejects.
type Day struct {
	Interfaces int
	Session    *Session
	Waits      bool // for outputs that forget more slowly than interfaces go, in any day
	Largest    int  // the most indexes that there were

	mu      sync.Mutex
	counts  map[int]probe.ProgramCounts // by slot
	come    int
	there   []*visit
	stopped atomic.Bool
}

// A visit is an interface that is there, with the numbers of its hooks and its sources.
type visit struct {
	hooks            []probe.Hook
	numbers, sources []int
}

// AtOnce is how many interfaces of a Day are there at a time.
const AtOnce = 30

// NewDay returns a Day of so many interfaces.
func NewDay(interfaces int) *Day {
	s := &Session{options: Options{Patterns: []string{"*"}, SnapLen: 100}, ledger: probe.NewLedger(0, 0)}
	s.roster = probe.NewRoster(nil, 1, nil)
	d := &Day{Interfaces: interfaces, Session: s, counts: make(map[int]probe.ProgramCounts)}
	s.roster.Programs = d
	return d
}

// Unwrap returns the session whose sources these are.
func (d *Day) Unwrap() Input { return d.Session }

// Filtered is how many packets of the interface with a number the filter does not match.
func (d *Day) Filtered(number int) int { return 1 + number%3 }

func (d *Day) Description() Description {
	return Description{Options: d.Session.options, Accounts: d.Accounts, More: d.Session.roster.Since}
}

func (d *Day) Read(packets []Packet, idle func()) (int, error) {
	if d.stopped.Load() || d.come == d.Interfaces {
		for _, c := range d.there {
			d.leave(c)
		}
		d.there = nil
		programs, err := d.Session.roster.Accounts()
		if d.Session.ledger.Final() == nil && err == nil {
			d.Session.ledger.Close(programs)
		}
		return 0, io.EOF
	}
	if idle != nil {
		for idle(); d.Waits && d.Session.roster.Leaving() > maxRetries && !d.stopped.Load(); idle() {
			runtime.Gosched()
		}
	}
	r, l := d.Session.roster, d.Session.ledger
	for n := range min(len(packets), d.Interfaces-d.come) {
		if len(d.there) == AtOnce {
			d.leave(d.there[0])
			d.there = d.there[1:]
		}
		c := &visit{hooks: []probe.Hook{&named{name: fmt.Sprint("veth", d.come)}}}
		var err error
		if c.numbers, err = r.Reserve(c.hooks); err != nil {
			return 0, err
		}
		if c.sources, err = r.Add(c.hooks, c.numbers, probe.Origin{Arrival: uint32(d.come + 1)}); err != nil {
			return 0, err
		}
		d.there = append(d.there, c)
		d.Largest = max(d.Largest, r.Size())
		l.Grow(r.Size())
		data := make([]byte, 60)
		binary.BigEndian.PutUint64(data, uint64(d.come))
		l.Take(c.sources[0], len(data))
		d.count(c.numbers[0], uint64(d.Filtered(d.come)))
		packets[n] = Packet{Source: uint16(c.sources[0]), Facts: &Facts{Time: int64(d.come), WireLen: 60}, Data: data}
		if d.come++; n == len(packets)-1 || d.come == d.Interfaces {
			l.Publish()
			return n + 1, nil
		}
	}
	return 0, io.EOF
}

// count counts a packet that is captured, and so many that are filtered out.
func (d *Day) count(slot int, filtered uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.counts[slot]
	a.Seen, a.Sent, a.FilteredOut = a.Seen+1+filtered, a.Sent+1, a.FilteredOut+filtered
	d.counts[slot] = a
}

// EndAll implements [probe.Programs]: named hooks have no programs.
func (d *Day) EndAll([]probe.Hook) error { return nil }

// Counted implements [probe.Programs].
func (d *Day) Counted(slot int) (probe.ProgramCounts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[slot], nil
}

// leave lets an interface go.
func (d *Day) leave(c *visit) {
	r := d.Session.roster
	d.Session.ledger.Publish()
	r.Leave(c.sources, 1)
	if retired, err := r.Retire(c.sources[0], 2, d.Session.ledger.Published(c.sources[0])); !retired || err != nil {
		panic(fmt.Sprint("it stays: ", err))
	}
	r.Free(c.numbers)
}

func (d *Day) Accounts() (Accounts, error) {
	return d.Session.ledger.Accounts(d.Session.roster.Accounts)
}

func (d *Day) Stop() { d.stopped.Store(true) }

func (d *Day) Close() error { return nil }
