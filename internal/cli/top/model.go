package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A sample has the rates of a row in one second.
type sample struct{ packets, bits float32 }

// minute is the number of samples that are kept of each row.
const minute = 60

// A model is the state of the screen, which keys change.
type model struct {
	width, height int // characters

	shown  [kinds]table // of the last second, or of the second when the screen was paused
	head   header
	trends [kinds]map[string][]sample // by the keys of rows
	whole  []sample                   // the trend of all packets

	kind    kind // the table on the screen
	order   order
	cursor  [kinds]int    // indices of rows
	held    [kinds]string // the key of the row that the cursor follows; "" = the cursor stays at its line
	paused  bool
	help    bool
	typing  bool   // a filter is being typed in
	typed   []rune // its text so far
	filter  string // of the counted packets
	message string // of the last action or of the counters; the next key removes it
	watch   *watchView
}

// A header has the contents of the first line.
type header struct {
	where   string // what is watched, and how
	at      time.Time
	rate    meter.Rate
	dropped float64 // the share that XDP programs dropped, 0 to 1; negative = unknown
	lost    meter.Rate
	trend   []sample
}

// A watchView has the packets of a row, as the screen shows them.
type watchView struct {
	title string
	lines []string // of the last packets
	state string   // the number of packets, and the file that they are written to
}

// An order is the column by which rows are sorted, which is also that of bars and trends.
type order int

const (
	byBits order = iota
	byPacketRate
	byBytes
	byPackets
	orders
)

var orderNames = [orders]string{"bit/s", "packets/s", "bytes", "packets"}

// value is the number by which a row is sorted.
func (o order) value(r meter.Rate) float64 {
	switch o {
	case byBits:
		return r.BitsPerSecond
	case byBytes:
		return float64(r.Bytes)
	case byPackets:
		return float64(r.Packets)
	}
	return r.PacketsPerSecond
}

// sampleValue is the number of a sample: trends show rates, also if rows are sorted by sums.
func (o order) sampleValue(s sample) float64 {
	if o == byBits || o == byBytes {
		return float64(s.bits)
	}
	return float64(s.packets)
}

// inPackets is the same order without bytes, for tables that do not count them.
func (o order) inPackets() order {
	switch o {
	case byBits:
		return byPacketRate
	case byBytes:
		return byPackets
	}
	return o
}

// update adds new readings to the trends, and shows them unless the screen is paused.
func (m *model) update(r *readings, where string) {
	tables := r.tables()
	total := r.total()
	m.whole = push(m.whole, total)
	for k := range tables {
		before := m.trends[k]
		m.trends[k] = make(map[string][]sample)
		for i := range tables[k].rows {
			one := &tables[k].rows[i]
			key := one.key()
			one.trend = push(before[key], one.rate)
			m.trends[k][key] = one.trend
		}
	}
	if m.paused {
		return
	}
	m.shown = tables
	m.head = header{where: where, at: r.at, rate: total, dropped: r.dropped(), lost: drops.TotalRate(r.drops), trend: m.whole}
	m.arrange()
}

// push returns a trend with one more sample. It does not change the old trend, which may still be
// shown.
func push(trend []sample, r meter.Rate) []sample {
	trend = trend[max(0, len(trend)-minute+1):]
	return append(slices.Clone(trend), sample{float32(r.PacketsPerSecond), float32(r.BitsPerSecond)})
}

// resetTrends begins all trends again, for another filter.
func (m *model) resetTrends() {
	m.trends, m.whole = [kinds]map[string][]sample{}, nil
}

// orderOf is the order of a table.
func (m *model) orderOf(t *table) order {
	if t.noBytes {
		return m.order.inPackets()
	}
	return m.order
}

// arrange sorts the tables except that of sizes, cuts them to mostRows, and moves the cursors with
// their rows.
func (m *model) arrange() {
	for k := range m.shown {
		t := &m.shown[k]
		by := m.orderOf(t)
		if t.all == nil {
			t.all = t.rows
		}
		if kind(k) != sizes {
			slices.SortStableFunc(t.all, func(a, b row) int {
				if c := cmp.Or(cmp.Compare(by.value(b.rate), by.value(a.rate)), cmp.Compare(b.rate.Packets, a.rate.Packets)); c != 0 {
					return c
				}
				return cmp.Compare(a.key(), b.key())
			})
		}
		t.rows = t.all[:min(len(t.all), mostRows)]
		t.more = t.more || len(t.rows) < len(t.all)
		if held := m.held[k]; held != "" {
			if at := slices.IndexFunc(t.rows, func(r row) bool { return r.key() == held }); at >= 0 {
				m.cursor[k] = at
			}
		}
		m.cursor[k] = max(0, min(m.cursor[k], len(t.rows)-1))
	}
}

// selected is the row of the cursor; nil = the table is empty.
func (m *model) selected() *row {
	t := &m.shown[m.kind]
	if len(t.rows) == 0 {
		return nil
	}
	return &t.rows[m.cursor[m.kind]]
}

// move moves the cursor, which then follows its row. In the first line it follows no row.
func (m *model) move(by int) {
	k := m.kind
	m.cursor[k] = max(0, min(m.cursor[k]+by, len(m.shown[k].rows)-1))
	m.held[k] = ""
	if m.cursor[k] > 0 {
		m.held[k] = m.selected().key()
	}
}
