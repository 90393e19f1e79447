package read_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/read"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// dropSource has packets that the stack threw away.
var dropSource = capture.Source{Name: "eth0", Hook: capture.StackDrop}

// reportOf writes the page of a file, and returns its tables: rows of cells by caption, with the
// titles first. Commas in numbers are removed.
func reportOf(t *testing.T, args ...string) (tables map[string][][]string, page string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.html")
	if out := systest.MustRead(t, append([]string{"--report", path}, args...)...); out != "" && !strings.Contains(strings.Join(args, " "), "--stats") {
		t.Errorf("%q are printed", out)
	}
	text := systest.ReadBytes(t, path)
	root, err := html.Parse(bytes.NewReader(text))
	testnet.Must(t, err)
	tables = make(map[string][][]string)
	for table := range root.Descendants() {
		if table.Data != "table" {
			continue
		}
		caption, rows := "", [][]string(nil)
		for n := range table.Descendants() {
			switch n.Data {
			case "caption":
				caption = textOf(n)
			case "tr":
				rows = append(rows, nil)
			case "th", "td":
				rows[len(rows)-1] = append(rows[len(rows)-1], strings.ReplaceAll(textOf(n), ",", ""))
			}
		}
		if len(rows) == 0 || tables[caption] != nil {
			t.Errorf("table %q has %d rows, or comes twice", caption, len(rows))
		}
		for _, row := range rows {
			if len(row) != len(rows[0]) {
				t.Errorf("table %q has %d titles and %q", caption, len(rows[0]), row)
			}
		}
		tables[caption] = rows
	}
	return tables, string(text)
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// The page has the numbers of --stats, which is printed besides if it is asked for.
func TestReportEqualsStats(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, entrySource, exitSource, dropSource)
	tables, _ := reportOf(t, file.Path)
	var stats read.Report
	path := filepath.Join(t.TempDir(), "out.html")
	testnet.Must(t, json.Unmarshal([]byte(systest.MustRead(t, "--report", path, "--stats", "--json", file.Path)), &stats))
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	counts := func(caption string, names int) (rows [][]string) {
		if tables[caption] == nil {
			t.Errorf("there is no table %q", caption)
			return nil
		}
		for _, row := range tables[caption][1:] {
			rows = append(rows, row[:names+2])
		}
		return rows
	}
	check := func(caption string, want, got [][]string) {
		if diff := cmp.Diff(want, got); diff != "" || want == nil {
			t.Errorf("%s (-stats +page): %s", caption, diff)
		}
	}

	var interfaces, verdicts, reasons, flows, accounts [][]string
	for _, i := range stats.Interfaces {
		label := map[string]string{"entry": "eth0:prog@entry", "exit": "eth0:prog@exit", "drop": "eth0@drop"}[i.Hook]
		interfaces = append(interfaces, []string{label, number(i.Packets), number(i.Bytes)})
		a := i.Account
		accounts = append(accounts, []string{label, number(*a.Seen), number(*a.FilteredOut), number(*a.NotSampled), number(*a.Lost), number(*a.NotTaken), number(*a.Captured), "0"})
	}
	for _, name := range []string{"aborted", "drop", "pass", "tx", "redirect", "unknown"} {
		if v, ok := stats.Verdicts[name]; ok {
			verdicts = append(verdicts, []string{name, number(v.Packets), number(v.Bytes)})
		}
	}
	for _, r := range stats.Reasons {
		reasons = append(reasons, []string{r.Reason, r.Location, number(r.Packets), number(r.Bytes)})
	}
	for _, f := range stats.Flows {
		end := func(addr string, port uint16) string {
			switch {
			case port == 0:
				return addr
			case strings.Contains(addr, ":"):
				return "[" + addr + "]:" + strconv.Itoa(int(port))
			}
			return addr + ":" + strconv.Itoa(int(port))
		}
		flows = append(flows, []string{f.Protocol, end(f.Source, f.SourcePort), end(f.Destination, f.DestinationPort), number(f.Packets), number(f.Bytes)})
	}
	for _, of := range []struct {
		caption string
		names   int
		want    [][]string
	}{
		{"Packets that were read, by interface", 1, interfaces},
		{"The account of each interface, in packets", 6, accounts},
		{"Packets by the verdict of the traced program", 1, verdicts},
		{"Packets that were thrown away, by reason", 2, reasons},
		{"The 10 flows with most bytes, one direction each", 3, flows},
	} {
		check(of.caption, of.want, counts(of.caption, of.names))
	}
	// These are in the page alone, and add up to all packets.
	for caption, names := range map[string]int{"Packets by protocol": 2, "Packets by size in bytes, from the Ethernet header on": 1, "Packets in steps of 1µs": 1} {
		packets, bytes := uint64(0), uint64(0)
		for _, row := range counts(caption, names) {
			p, _ := strconv.ParseUint(row[names], 10, 64)
			b, _ := strconv.ParseUint(row[names+1], 10, 64)
			packets, bytes = packets+p, bytes+b
		}
		if packets != stats.Total.Packets || bytes != stats.Total.Bytes {
			t.Errorf("%s: %d packets, %d bytes; --stats has %+v", caption, packets, bytes, stats.Total.Rate)
		}
	}
}

// Names in files are text in the page, and nothing else.
func TestReportEscapes(t *testing.T) {
	t.Parallel()
	const name = `<script>alert(1)</script>"' onload=x`
	file := systest.WriteSample(t, capture.Source{Name: name}, capture.Source{Name: name, Hook: capture.Exit, Target: capture.Program{Name: "</title><b>"}})
	hostile := filepath.Join(t.TempDir(), "<img src=x>.pcapng")
	testnet.Must(t, os.Rename(file.Path, hostile))
	tables, page := reportOf(t, hostile)
	if got := tables["Packets that were read, by interface"][1][0]; got != name {
		t.Errorf("the interface is %q", got)
	}
	for _, text := range []string{"<script", "<img", "<b>", "http://", "https://", "@import", "url("} {
		if strings.Contains(page, text) {
			t.Errorf("the page has %s", text)
		}
	}
	if strings.Contains(page, filepath.Dir(hostile)) {
		t.Error("the page has the file's directory")
	}
}

// With --follow the page has the delays of the packets that --follow finds.
func TestReportFollows(t *testing.T) {
	t.Parallel()
	file := writeSampled(t, capture.Options{}, []capture.Packet{
		{Facts: &capture.Facts{ID: 1, Time: 1000}}, {Source: 1, Facts: &capture.Facts{ID: 1, Time: 1431, Verdict: capture.Pass, RunTime: 400}},
		{Facts: &capture.Facts{ID: 2, Time: 2000}},
	}, entrySource, exitSource)
	tables, _ := reportOf(t, "--follow", file)
	for caption, want := range map[string][]string{
		"Time from the first place of a packet to a further one, in nanoseconds": {"eth0:prog@entry", "eth0:prog@exit", "1", "431", "431", "431", "431", "431"},
		"Packets that were seen at one place alone":                              {"eth0:prog@entry", "1"},
		"Run time of the XDP program by verdict, in nanoseconds":                 {"pass", "1", "400", "400", "400", "400", "400"},
	} {
		if rows := tables[caption]; len(rows) < 2 || !slices.Equal(rows[1], want) {
			t.Errorf("%s: %v, want %v", caption, rows, want)
		}
	}
}

// A file that is read, or a second text on standard output, is refused. The filter of the page is
// in it, and -c and -w work besides.
func TestReportFlags(t *testing.T) {
	t.Parallel()
	file := systest.WriteSample(t, systest.PlainSource).Path
	before := systest.ReadBytes(t, file)
	for _, test := range []struct{ args, says string }{
		{"--report " + file, "which the page would replace"},
		{"--report - --stats", "both need standard output"},
		{"--report x.html --anonymize key", "--anonymize is for packets"},
		{"--report /nonexistent/x.html", "create its directory first"},
	} {
		_, stderr, status := systest.RunRead(t, nil, append(strings.Fields(test.args), file)...)
		if status == 0 || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: status %d, %s", test.args, status, stderr)
		}
	}
	if !bytes.Equal(before, systest.ReadBytes(t, file)) {
		t.Error("the file that was read has changed")
	}
	copied := filepath.Join(t.TempDir(), "copy.pcapng")
	tables, page := reportOf(t, "-c", "3", "-w", copied, file, "ip")
	if got := tables["Packets that were read, by interface"][1][1]; got != "3" || systest.StatsOf(t, copied).Total.Packets != 3 {
		t.Errorf("%s packets", got)
	}
	if !strings.Contains(page, "Chosen by -c 3, the filter ip.") {
		t.Error("the page does not say what it is about")
	}
	asked := systest.MustRead(t, "--stats", "--json", file)
	if got := systest.MustRead(t, "--stats", "--format", "json", file); got != asked {
		t.Errorf("--stats --format json: %s", got)
	}
	rows := filepath.Join(t.TempDir(), "out.csv")
	systest.MustRead(t, "-w", rows, file)
	printed := systest.MustRead(t, "--format", "csv", file)
	lines := strings.Count(systest.MustRead(t, "--format", "json", file), "\n")
	if !strings.HasPrefix(printed, "time,interface,") || strings.Count(printed, "\r\n") != lines+1 || printed != string(systest.ReadBytes(t, rows)) {
		t.Errorf("--format csv, of %d packets: %s", lines, printed)
	}
	if out := systest.MustRead(t, "--report", "-", file); !strings.HasPrefix(out, "<!doctype html>") {
		t.Errorf("standard output begins with %.40q", out)
	}
}
