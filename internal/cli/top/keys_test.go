package top

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// pressAll presses keys, with spaces between them, and returns the last action.
func (m *model) pressAll(keys string) (a action) {
	for key := range strings.FieldsSeq(keys) {
		a = m.press(strings.ReplaceAll(key, "_", " "))
	}
	return a
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		keys string
		want action
		is   func(m *model) bool
	}{
		{"q", leave, nil},
		{"Ctrl-C", leave, nil},
		{"/ Ctrl-C", leave, nil},
		{"Ctrl-Z", pause, nil},
		{"d", noAction, func(m *model) bool { return m.kind == losses }},
		{"d d", noAction, func(m *model) bool { return m.kind == losingFlows }},
		{"d d d", noAction, func(m *model) bool { return m.kind == losses }},
		{"Tab Tab", noAction, func(m *model) bool { return m.kind == protocols }},
		{"Left", noAction, func(m *model) bool { return m.kind == interfaces }},
		{"Tab Backtab", noAction, func(m *model) bool { return m.kind == flows }},
		{"o", noAction, func(m *model) bool { return m.order == byPacketRate }},
		{"o o o o", noAction, func(m *model) bool { return m.order == byBits }},
		{"Down Down Up", noAction, func(m *model) bool { return m.cursor[flows] == 1 }},
		{"End", noAction, func(m *model) bool { return m.cursor[flows] == 8 }},
		{"PgDn PgUp", noAction, func(m *model) bool { return m.cursor[flows] == 0 && m.held[flows] == "" }},
		{"Up", noAction, func(m *model) bool { return m.cursor[flows] == 0 }},
		{"?", noAction, func(m *model) bool { return m.help }},
		{"? q", noAction, func(m *model) bool { return !m.help }},
		{"p", noAction, func(m *model) bool { return m.paused }},
		{"_ _", noAction, func(m *model) bool { return !m.paused }},
		{"Enter", watchRow, nil},
		{"w", writeRow, nil},
		{"l Enter", noAction, func(m *model) bool { return m.message != "" }},
		{"l Enter f", noAction, func(m *model) bool { return m.message == "" }},
		// A key is a character of the filter while that is typed in.
		{"/ q ? x Backspace Enter", refilter, func(m *model) bool { return string(m.typed) == "q?" && !m.typing }},
		{"/ a Ctrl-U u d p _ o r Enter", refilter, func(m *model) bool { return string(m.typed) == "udp or" }},
		{"/ Backspace Backspace2 Up ü Enter", refilter, func(m *model) bool { return string(m.typed) == "ü" }},
		{"/ a b Esc", noAction, func(m *model) bool { return len(m.typed) == 0 && !m.typing }},
	} {
		m := modelOf(80, 24, 2, "vb")
		m.shown[runTimes].rows = nil
		if got := m.pressAll(test.keys); got != test.want || test.is != nil && !test.is(m) {
			t.Errorf("%s: action %d, want %d, kind %d, cursor %d, typed %q, message %q", test.keys, got, test.want, m.kind, m.cursor, string(m.typed), m.message)
		}
	}
	m := modelOf(80, 24, 2, "vb")
	for keys, want := range map[string]action{"Esc": unwatch, "Enter": unwatch, "w": writeWatched, "q": leave, "d": noAction} {
		m.watch = &watchView{title: "packets: udp", lines: strings.Split(strings.Repeat("a packet\n", 99), "\n"), state: "99 packets"}
		if got := m.pressAll(keys); got != want || m.kind != flows {
			t.Errorf("while packets are shown: %s: action %d, want %d", keys, got, want)
		}
	}
	if text := m.text(); !strings.Contains(text, "packets: udp\na packet\n") || !strings.Contains(text, "99 packets  ") {
		t.Error(text)
	}
}

// The cursor follows its row to another place, and stays at the first line until it is moved.
func TestCursorFollows(t *testing.T) {
	t.Parallel()
	m := modelOf(80, 24, 2, "vb")
	m.pressAll("Down")
	held := m.selected().key()
	r := readingsOf(3, "vb")
	entries := r.interfaces[0].in.Now.Flows[0][0].Entries
	entries[0].Counted.Bytes += 1e9 // the slowest is the fastest now
	m.update(r, "vb")
	if m.selected().key() != held || m.cursor[flows] != 2 {
		t.Errorf("the cursor is at %d: %q, not at %q", m.cursor[flows], m.selected().key(), held)
	}
	m.pressAll("Home")
	m.update(readingsOf(4, "vb"), "vb")
	if m.cursor[flows] != 0 {
		t.Errorf("after Home it is at %d", m.cursor[flows])
	}
}

// While it is paused the tables stay, and the trends go on.
func TestPause(t *testing.T) {
	t.Parallel()
	m := modelOf(80, 24, 3, "vb")
	before := m.text()
	m.press("p")
	m.update(readingsOf(4, "vb"), "vb")
	m.update(readingsOf(5, "vb"), "vb")
	if text := strings.Replace(m.text(), "paused", "      ", 1); text != before {
		t.Errorf("it shows\n%swant\n%s", text, before)
	}
	m.press("p")
	m.update(readingsOf(6, "vb"), "vb")
	if n := len(m.shown[flows].rows[0].trend); n != 6 {
		t.Errorf("a trend of %d seconds", n)
	}
	m.resetTrends()
	m.update(readingsOf(7, "vb"), "vb")
	if n := len(m.shown[flows].rows[0].trend); n != 1 {
		t.Errorf("after another filter a trend of %d seconds", n)
	}
}

// A row beyond mostRows comes first in another order, also while the screen is paused.
func TestOrderOfCutRows(t *testing.T) {
	t.Parallel()
	m := &model{width: 80, height: 24, paused: true}
	for i := range mostRows + 1 {
		n := float64(i)
		m.shown[flows].rows = append(m.shown[flows].rows, row{from: fmt.Sprint(i), rate: meter.Rate{BitsPerSecond: n, PacketsPerSecond: -n}})
	}
	m.arrange()
	for _, first := range []string{fmt.Sprint(mostRows), "0"} { // by bit/s, by packets/s
		if shown := &m.shown[flows]; len(shown.rows) != mostRows || !shown.more || shown.rows[0].from != first {
			t.Errorf("%s: %d rows, the first is %s, not %s", orderNames[m.order], len(shown.rows), shown.rows[0].from, first)
		}
		m.press("o")
	}
}

// A minute is kept, of which the newest second is on the right.
func TestSpark(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		trend []sample
		want  string
	}{
		{nil, "        "},
		{[]sample{{bits: 8}, {bits: 0}, {bits: 1}, {bits: 4}}, "    █ ▂▅"},
		{[]sample{{bits: 99}, {bits: 1}, {bits: 2}, {bits: 3}, {bits: 4}, {bits: 5}, {bits: 6}, {bits: 7}, {bits: 8}}, "▂▃▄▅▆▇██"},
		{[]sample{{}, {}}, "        "},
	} {
		if got := spark(test.trend, byBits, 8); got != test.want {
			t.Errorf("%v: %q, want %q", test.trend, got, test.want)
		}
	}
	if n := len(modelOf(80, 24, 70, "vb").whole); n != minute {
		t.Errorf("%d seconds are kept", n)
	}
	for share, want := range map[float64]string{0: "    ", 0.5: "██  ", 1: "████", 0.15: "▋   ", 7: "████"} {
		if got := blocks(share, 4); got != want || utf8.RuneCountInString(got) != 4 {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}
