package lines

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// The columns are the keys of lines, as documented.
func TestColumns(t *testing.T) {
	t.Parallel()
	keys := slices.Concat(testfile.List(t, "docs/json.md", "## Keys of --json")["line"], []string{"ifindex"}) // which only read has
	slices.Sort(keys)
	if diff := cmp.Diff(testfile.List(t, "docs/reading.md", "row with the names of the columns")["columns"], columns[:]); diff != "" {
		t.Error(diff)
	}
	got := slices.Sorted(slices.Values(columns[:]))
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Error(diff)
	}
}

// checkRow fails if a row has not the values of a line.
func checkRow(t *testing.T, line, row []byte) {
	t.Helper()
	var want map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(line)))
	decoder.UseNumber()
	if err := decoder.Decode(&want); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(string(AppendTitles(nil)) + string(row))).ReadAll()
	if err != nil || len(records) != 2 || strings.Count(string(row), "\n") != 1 || !strings.HasSuffix(string(row), "\r\n") {
		t.Fatalf("%q: %v", row, err)
	}
	for i, name := range records[0] {
		text := ""
		switch value := want[name].(type) {
		case nil:
		case []any:
			text = strings.Trim(fmt.Sprint(value), "[]")
		case string:
			text = strings.NewReplacer("\n", `\n`, "\x1b", `\x1b`).Replace(value)
		default:
			text = fmt.Sprint(value)
		}
		if delete(want, name); records[1][i] != text {
			t.Errorf("%s is %q, want %q", name, records[1][i], text)
		}
	}
	if len(want) > 0 {
		t.Errorf("the row lacks %v", want)
	}
}

// A row has all values of the packet's line, also if their texts have commas, quotes and line
// breaks.
func TestRows(t *testing.T) {
	t.Parallel()
	d := capture.Description{
		Sources: []capture.Source{
			{Name: "eth0"}, {Name: "a,b\"c\"\n\x1b\\", Hook: capture.Exit, Target: capture.Program{Name: `"`}, Pod: capture.Pod{Namespace: "default", Name: "web-1"}},
		},
		OutletName:   func(capture.Outlet) string { return ",}" },
		ReasonName:   func(uint16, *capture.Facts) string { return `"verdict":"x",` },
		LocationName: func(capture.Location) string { return "here" },
	}
	e := NewJSONEncoder(&d, nil)
	for _, p := range []capture.Packet{
		{Data: tcp, Facts: &capture.Facts{Time: 1_790_000_000_000_000_001, WireLen: 54}},
		{Data: tcp[:5], Facts: new(capture.Facts)},
		{Source: 1, Data: append(append(slices.Clone(tcp[:12]), 0x81, 0, 0, 7), tcp[12:]...), Facts: &capture.Facts{
			WireLen: 1500, Verdict: capture.Drop, To: 3, Queue: 3, ID: 1 << 63, Dropped: 5, Weight: 1000, GSOSize: 1448, RunTime: 250, Reason: 2, Location: 3,
			Hash: 7, HashKind: capture.ToeplitzHash, ClockSetBack: 9,
		}},
		{Source: 1, Data: tcp, Facts: &capture.Facts{WireLen: 54, Verdict: math.MaxUint32 - 21, VerdictKind: capture.PlainNumber}},
	} {
		room := e.RowRoom(&p)
		row := e.AppendRow(nil, &p)
		if len(row) > room {
			t.Errorf("%d bytes, room for %d", len(row), room)
		}
		checkRow(t, NewJSONEncoder(&d, nil).Append(nil, &p), row)
	}
}
