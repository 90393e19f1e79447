package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// testSources are the places of the tests: by their letters.
var testSources = []packet.Source{
	'a': {Name: "a"},
	'b': {Name: "b", Hook: packet.Egress},
	'c': {Name: "c", Hook: packet.Egress},
	'n': {Name: "a", Hook: packet.Entry, Target: packet.Program{Name: "lb"}},
	'x': {Name: "a", Hook: packet.Exit, Target: packet.Program{Name: "lb"}},
	's': {Name: "s", SnapLen: 70},
	't': {Name: "t", SnapLen: 70},
	'u': {Name: "u", SnapLen: 60},
	'v': {Name: "v", SnapLen: 60},
	'f': {Name: "a", File: "other.pcapng"},
}

// A seen is a packet at a place.
type seen struct {
	place byte
	after time.Duration // since the first of the test
	id    uint64
	testPacket
}

// add adds it to a table, as its source gives it.
func (s *seen) add(t *Table) *Record {
	source, frame := &testSources[s.place], s.frame()
	p := packet.Packet{Source: uint16(s.place), Facts: &packet.Facts{
		WireLen: uint32(len(frame)), ID: s.id, Time: int64(time.Hour + s.after),
	}, Data: frame}
	if source.SnapLen > 0 {
		p.Data = frame[:min(len(frame), int(source.SnapLen))]
	}
	r := t.Add(source, &p)
	r.Place = string(s.place)
	return r
}

// followed adds records to a table, and returns the ways that it joins them to, as text: "ab c" is
// a packet that was seen at the places a and b, and another one at c. More signs mean:
//
//	ab+    the packet at b is larger, and holds the one at a
//	ab-    the packet at b is a part of the one at a
//	c~2    the record at c fits two earlier ways, so it begins its own
//	ab?cd  the records at c and d fit this way, and others
func followed(all ...seen) string {
	var ways []string
	table := New(func(w *Way) {
		text := ""
		for _, r := range w.Records {
			text += r.Place
			switch first := w.Records[0]; {
			case r.Holds(first):
				text += "+"
			case first.Holds(r):
				text += "-"
			}
		}
		if w.Fits > 0 {
			text += fmt.Sprintf("~%d", w.Fits)
		}
		for i, r := range w.Unclear {
			if i == 0 {
				text += "?"
			}
			text += r.Place
		}
		ways = append(ways, text)
	})
	for i := range all {
		all[i].add(table)
	}
	table.Close()
	return strings.Join(ways, " ")
}

// at returns records of packets, at these places in this order.
func at(places string, packets ...testPacket) (all []seen) {
	for i, p := range packets {
		all = append(all, seen{place: places[i%len(places)], after: time.Duration(i) * time.Microsecond, testPacket: p})
	}
	return all
}

// Records are joined by the parts of a packet that the path does not change, and only by these.
func TestKeys(t *testing.T) {
	t.Parallel()
	tcp := testPacket{ipID: 5, seq: 100, flags: 16, data: "hello"}
	tcp6 := testPacket{v6: true, seq: 100, flags: 16, data: "hello"}
	udp := testPacket{protocol: 17, ipID: 5, data: "hello"}
	udp6 := testPacket{v6: true, protocol: 17, data: "hello"}
	icmp := testPacket{protocol: 1, ipID: 5, seq: 1, data: "hello"}
	icmp6 := testPacket{v6: true, protocol: 58, seq: 1, data: "hello"}
	syn := testPacket{ipID: 5, seq: 100, flags: 2}
	ack := testPacket{ipID: 5, seq: 100, ack: 7, flags: 16}
	piece := testPacket{protocol: 17, ipID: 5, fragment: 0x2000, data: "hello"}
	piece6 := testPacket{v6: true, protocol: 17, ipID: 5, fragment: 1, isPiece: true, data: "hello"}
	esp := testPacket{protocol: 50, ipID: 5, data: "hello"}
	with := func(p testPacket, change func(*testPacket)) testPacket {
		change(&p)
		return p
	}
	for name, p := range map[string]testPacket{
		"tcp": tcp, "tcp6": tcp6, "udp": udp, "udp6": udp6, "icmp": icmp, "icmp6": icmp6,
		"syn": syn, "ack": ack, "fragment": piece, "fragment6": piece6, "esp": esp,
	} {
		for change, other := range map[string]testPacket{
			"nothing": p,
			"TTL":     with(p, func(p *testPacket) { p.ttl++ }),
			"MAC":     with(p, func(p *testPacket) { p.mac++ }),
			"tag":     with(p, func(p *testPacket) { p.tags = []byte{5} }),
			"tags":    with(p, func(p *testPacket) { p.tags = []byte{6, 5} }),
			"padding": with(p, func(p *testPacket) { p.padding = 20 }),
		} {
			if got := followed(at("ab", p, other)...); got != "ab" {
				t.Errorf("%s, %s differs: %s", name, change, got)
			}
			if got := followed(at("ab", other, p)...); got != "ab" {
				t.Errorf("%s, %s differs the other way round: %s", name, change, got)
			}
		}
		changes := map[string]testPacket{
			"address": with(p, func(p *testPacket) {
				if p.from = "10.0.0.9"; p.v6 {
					p.from = "fd00::9"
				}
			}),
		}
		if !p.v6 || p.isPiece {
			changes["IP id"] = with(p, func(p *testPacket) { p.ipID++ })
		}
		if p.fragment != 0 {
			changes["position"] = with(p, func(p *testPacket) { p.fragment += 8 })
		} else if p.protocol != 50 {
			if changes["port"] = with(p, func(p *testPacket) { p.port = 999 }); p.protocol == 1 || p.protocol == 58 {
				delete(changes, "port")
			}
			if changes["sequence"] = with(p, func(p *testPacket) { p.seq++ }); p.protocol == 17 {
				delete(changes, "sequence")
			}
			same := with(p, func(p *testPacket) { p.checksum = 0xabcd })
			if got := followed(at("ab", p, same)...); got != "ab" {
				t.Errorf("%s, only the checksum differs: %s", name, got)
			}
		}
		if p.protocol != 0 {
			changes["data"] = with(p, func(p *testPacket) { p.data = "hellO" })
			changes["length"] = with(p, func(p *testPacket) { p.data = "hello!" })
		}
		for change, other := range changes {
			if got := followed(at("ab", p, other)...); got != "a b" {
				t.Errorf("%s, another %s: %s", name, change, got)
			}
		}
	}
	for name, other := range map[string]testPacket{
		"ack of other data": with(ack, func(p *testPacket) { p.ack++ }),
		"with data":         tcp,
		"fin":               with(ack, func(p *testPacket) { p.flags |= 1 }),
	} {
		if got := followed(at("ab", ack, other)...); got != "a b" {
			t.Errorf("an empty segment, and one that differs, %s: %s", name, got)
		}
	}
}

// Truncated packets, and packets that are not IP, are joined only if enough of them is left.
func TestKeysOfCutPackets(t *testing.T) {
	t.Parallel()
	long := testPacket{protocol: 17, ipID: 5, data: strings.Repeat("0123456789", 10)}
	tagged, other, long6, nearly := long, long, long, long
	tagged.tags, other.data, long6.v6 = []byte{5}, "another"+long.data[7:], true
	nearly.data = long.data[:26] // untagged it is whole, tagged it is not
	nearlyTagged := nearly
	nearlyTagged.tags = []byte{5}
	for _, test := range []struct {
		name string
		all  []seen
		want string
	}{
		{"the same", at("st", long, long), "st"},
		{"a tag moves the cut", at("st", long, tagged), "st"},
		{"a tag makes the cut", at("st", nearly, nearlyTagged), "st"},
		{"the beginning differs", at("st", long, other), "s t"},
		{"nothing is left to compare", at("uv", long6, long6), "u v"},
	} {
		if got := followed(test.all...); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	arp := packet.Packet{Facts: &packet.Facts{WireLen: 60}, Data: append(make([]byte, 12), 8, 6)}
	n := 0
	table := New(func(*Way) { n++ })
	for _, place := range "ab" {
		arp.Source = uint16(place)
		table.Add(&testSources[place], &arp)
	}
	if table.Close(); n != 2 {
		t.Errorf("%d ways of two frames that are not IP", n)
	}
}

// Records that were cut after their headers are joined like whole ones, although a tag makes one of
// them longer.
func TestKeysOfHeaders(t *testing.T) {
	t.Parallel()
	places := []packet.Source{{Name: "a", SnapLen: 65412}, {Name: "b", SnapLen: 65412}}
	for _, v6 := range []bool{false, true} {
		whole := testPacket{v6: v6, protocol: 17, data: strings.Repeat("0123456789", 10)}
		longer := whole
		longer.data += "0"
		for _, test := range []struct {
			second testPacket
			want   int
		}{{whole, 1}, {longer, 2}} {
			n := 0
			table := New(func(*Way) { n++ })
			test.second.tags = []byte{5}
			for i, p := range []testPacket{whole, test.second} {
				frame := p.frame()
				table.Add(&places[i], &packet.Packet{
					Source: uint16(i), Facts: &packet.Facts{WireLen: uint32(len(frame))}, Data: frame[:len(frame)-len(p.data)],
				})
			}
			if table.Close(); n != test.want {
				t.Errorf("IPv6 %v: %d ways, want %d", v6, n, test.want)
			}
		}
	}
}

// Segments that GRO has merged are followed into the larger whole, and a whole that is cut into
// its parts, also where the sequence numbers start again.
func TestSegments(t *testing.T) {
	t.Parallel()
	segment := func(seq uint32, id uint16, length int) testPacket {
		return testPacket{ipID: id, seq: seq, flags: 16, data: strings.Repeat("x", length)}
	}
	for _, first := range []uint32{1000, 0xffff - 100, 0xffff_ff00} {
		s1, s2, s3 := segment(first, 7, 100), segment(first+100, 8, 100), segment(first+200, 9, 60)
		all := segment(first, 7, 260)
		fin, last := testPacket{ipID: 8, seq: first + 100, flags: 17}, segment(first, 7, 100)
		last.flags |= 1
		for _, test := range []struct {
			name   string
			places string
			seen   []testPacket
			want   string
		}{
			{"merged", "aaab", []testPacket{s1, s2, s3, all}, "ab+ ab+ ab+"},
			{"merged, and so on", "aaabc", []testPacket{s1, s2, s3, all, all}, "ab+c+ ab+c+ ab+c+"},
			{"merged, one was not seen", "aab", []testPacket{s1, s3, all}, "ab+ ab+"},
			{"merged, the first was not seen", "aab", []testPacket{s2, s3, all}, "ab+ ab+"},
			{"in another order", "aaab", []testPacket{s3, s1, s2, all}, "ab+ ab+ ab+"},
			{"cut", "abbb", []testPacket{all, s1, s2, s3}, "ab-b-b-"},
			{"cut twice", "abbbb", []testPacket{all, s1, s2, s2, s3}, "ab-b-b- b"},
			{"the same id", "aab", []testPacket{segment(first, 7, 100), segment(first+100, 7, 100), all}, "ab+ ab+"},
			{"sent again", "aaab", []testPacket{s1, segment(first, 70, 100), s2, all}, "ab+ a ab+"},
			{"sent again without an id", "aaab", []testPacket{segment(first, 0, 100), segment(first, 0, 100), segment(first+100, 0, 100), segment(first, 0, 200)}, "a?b a?b a?b b~3"},
			{"of which one is a part of another", "aab", []testPacket{segment(first, 0, 50), segment(first, 0, 100), segment(first, 0, 200)}, "a?b a?b b~2"},
			{"they overlap", "ab", []testPacket{s1, segment(first+50, 7, 100)}, "a b"},
			{"next to each other", "ab", []testPacket{s1, s2}, "a b"},
			{"another connection", "ab", []testPacket{s1, {port: 9, ipID: 7, seq: first, data: all.data}}, "a b"},
			{"merged with the end", "aab", []testPacket{s1, fin, last}, "ab+ ab+"},
			{"its id counts down", "aab", []testPacket{s1, segment(first+100, 6, 100), all}, "ab+ a"},
		} {
			if got := followed(at(test.places, test.seen...)...); got != test.want {
				t.Errorf("%s, from %#x on: %s, want %s", test.name, first, got, test.want)
			}
		}
	}
	large := segment(1, 0, 200_000)
	large.jumbo = true
	if got := followed(at("ab", segment(1, 0, 60_000), large)...); got != "ab+" {
		t.Errorf("BIG TCP: %s", got)
	}
}

// A packet has one record at a place, ids distinguish entry and exit of a program, and a record
// that fits several packets is joined to none.
func TestWays(t *testing.T) {
	t.Parallel()
	p := testPacket{v6: true, protocol: 17, data: "the same"}
	changed := testPacket{v6: true, protocol: 17, from: "fd00::7", data: "the same"}
	see := func(place byte, id uint64, p testPacket) seen { return seen{place: place, id: id, testPacket: p} }
	for _, test := range []struct {
		name string
		all  []seen
		want string
	}{
		{"one after the other", at("ab", p, p, p, p, p, p), "ab ab ab"},
		{"the second before the first has left", at("aabb", p, p, p, p), "a?b a?b b~2 b~2"},
		{"then somewhere else", at("aabc", p, p, p, p), "a?bc a?bc b~2 c~2"},
		{"after that", at("aabab", p, p, p, p, p), "a?b a?b b~2 a?b b~3"},
		{"one was not forwarded", at("aab", p, p, p), "a?b a?b b~2"},
		{"sent twice", at("abb", p, p, p), "ab b"},
		{"three places", at("abc", p, p, p), "abc"},
		{"the same name in another file", at("af", p, p), "af"},
		{"by id", []seen{see('n', 1, p), see('n', 2, p), see('x', 2, p), see('x', 1, p)}, "nx nx"},
		{"by id, and on", []seen{see('n', 1, p), see('x', 1, p), see('b', 0, p)}, "nxb"},
		{"changed by the program", []seen{see('n', 1, p), see('x', 1, changed), see('b', 0, changed)}, "nxb"},
		{"the first one was changed", []seen{see('n', 1, p), see('x', 1, changed), see('b', 0, p)}, "nxb"},
		{"another id", []seen{see('n', 1, p), see('x', 2, p)}, "n x"},
		{"an id of two", []seen{see('n', 1, p), see('n', 1, p), see('x', 1, p)}, "n?x n?x x~2"},
		{"before the program", []seen{see('b', 0, p), see('n', 1, p), see('x', 1, p)}, "bnx"},
		{"ids are not for other hooks", []seen{see('a', 1, p), see('b', 1, changed)}, "a b"},
		{"too late", []seen{{place: 'a', testPacket: p}, {place: 'b', after: Window + 1, testPacket: p}}, "a b"},
		{"just in time", []seen{{place: 'a', testPacket: p}, {place: 'b', after: Window, testPacket: p}}, "ab"},
		{"the window begins with the first", []seen{{place: 'a', testPacket: p}, {place: 'b', after: Window, testPacket: p}, {place: 'c', after: Window + 1, testPacket: p}}, "ab c"},
		{"a little before", []seen{{place: 'a', testPacket: p}, {place: 'b', after: -time.Millisecond, testPacket: p}}, "ab"},
		{"the clock was set back", []seen{{place: 'a', testPacket: p}, {place: 'b', after: -time.Minute, testPacket: p}, {place: 'a', after: -time.Minute, testPacket: changed}, {place: 'c', after: -time.Minute, testPacket: changed}}, "a b ac"},
	} {
		if got := followed(test.all...); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Packets leave in the order in which they came, once their window has passed.
func TestLeave(t *testing.T) {
	t.Parallel()
	var got []string
	table := New(func(w *Way) { got = append(got, w.Records[0].Place) })
	for i, place := range []byte("abcab") {
		s := seen{place: place, after: time.Duration(i) * Window / 2, testPacket: testPacket{ipID: uint16(i)}}
		s.add(table)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("two windows after the first: %s", diff)
	}
	if table.Close(); strings.Join(got, "") != "abcab" || table.Early() != 0 {
		t.Errorf("%q, %d of them early", got, table.Early())
	}
}

// size is how much a table has in it.
func (t *Table) size() int {
	n := t.records
	for _, b := range t.index.buckets {
		n += len(b.ways) + len(b.unclear) + len(b.regions)
	}
	for _, all := range t.index.regions {
		n += len(all)
	}
	return n + len(t.index.buckets) + len(t.index.occupied)
}

// A million records need no more memory than those of a window, or than MaxRecords, and their time
// does not depend on how many have the same key.
func TestMillionRecords(t *testing.T) {
	t.Parallel()
	frames := func(kind string, i int) (p testPacket) {
		switch kind {
		case "different":
			return testPacket{protocol: 17, ipID: uint16(i / 2), data: fmt.Sprint(i / 2)}
		case "segments":
			return testPacket{ipID: uint16(i / 2), seq: uint32(i/2) * 10, flags: 16, data: "0123456789"}
		case "parts":
			return testPacket{seq: uint32(i % 5), flags: 16, data: strings.Repeat("x", i%7)}
		}
		return testPacket{protocol: 17}
	}
	for _, test := range []struct {
		name, kind, places string
		apart              time.Duration
	}{
		{"different", "different", "ab", 50 * time.Microsecond},
		{"segments", "segments", "ab", 50 * time.Microsecond},
		{"at once", "different", "ab", 0},
		{"segments at once", "segments", "ab", 0},
		{"the same, dropped", "same", "a", 0},
		{"the same, forwarded", "same", "ab", 0},
		{"the same, in pairs", "same", "aabb", 0},
		{"parts of each other", "parts", "abbacc", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			records := 1 << 18
			if testing.Short() {
				records = MaxRecords + MaxRecords/8
			} else if test.name == "different" {
				records = 1 << 20
			}
			ways, most, n := 0, 0, 0
			table := New(func(w *Way) {
				ways++
				n += len(w.Records)
			})
			for i := range records {
				s := seen{place: test.places[i%len(test.places)], testPacket: frames(test.kind, i)}
				s.after = time.Duration(i) * test.apart
				s.add(table)
				if i%(records/16) == 0 {
					most = max(most, table.size())
				}
			}
			if limit := 12 * MaxRecords; most > limit {
				t.Errorf("up to %d things are kept", most)
			}
			if (test.apart == 0) != (table.Early() > 0) {
				t.Errorf("%d packets left early", table.Early())
			}
			if table.Close(); table.size() != 0 || table.oldest != nil || table.newest != nil {
				t.Errorf("%d things are left", table.size())
			}
			if n != records && test.kind != "parts" || ways == 0 {
				t.Errorf("%d records of %d in %d ways", n, records, ways)
			}
			if test.name == "different" && ways != records/2 {
				t.Errorf("%d ways of %d packets", ways, records/2)
			}
		})
	}
}

// The text of all records that are kept is bounded, also where they are in several packets.
func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1 << 20, 3 * MaxText} {
		kept, most, ways := 0, 0, 0
		table := New(func(w *Way) {
			ways++
			for _, r := range w.Records {
				kept -= len(r.Text)
			}
		})
		for i := range 500 {
			s := seen{place: 'a', testPacket: testPacket{protocol: 17, ipID: uint16(i), data: fmt.Sprint(i)}}
			s.add(table).Text = make([]byte, size)
			kept += size
			most = max(most, kept)
			if size > MaxText && i == 3 {
				break
			}
		}
		if most > MaxText+2*size || table.Early() == 0 {
			t.Errorf("%d bytes each: %d are kept, %d packets have left early", size, most, table.Early())
		}
		if table.Close(); kept != 0 || table.text != 0 || ways == 0 {
			t.Errorf("%d bytes each: %d are left, the table says %d", size, kept, table.text)
		}
	}
}

// A packet at very many interfaces, which only a crafted file has, does not take long.
func TestManyPlaces(t *testing.T) {
	t.Parallel()
	longest, sources := 0, make([]packet.Source, 1<<16)
	table := New(func(w *Way) { longest = max(longest, len(w.Records)) })
	data := testPacket{protocol: 17}.frame()
	for range 4 {
		for i := range sources {
			sources[i].Name = fmt.Sprint(i)
			table.Add(&sources[i], &packet.Packet{Source: uint16(i), Facts: &packet.Facts{Time: 1}, Data: data})
		}
	}
	if table.Close(); longest != maxRecords {
		t.Errorf("a packet has %d records", longest)
	}
}

// Any packets of any files are joined without a panic.
func FuzzTable(f *testing.F) {
	f.Add(slices.Concat(testPacket{data: "x"}.frame(), testPacket{v6: true, isPiece: true}.frame()), uint8(60))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		n := 0
		table := New(func(w *Way) { n++ })
		for i := range 3 {
			for at := 0; at < len(data); at += int(step) + 1 {
				whole := data[at:min(at+int(step)+1, len(data))]
				place := "abcnxst"[(at+i)%7]
				table.Add(&testSources[place], &packet.Packet{Source: uint16(place), Facts: &packet.Facts{
					WireLen: uint32(len(whole)) << (at % 24), ID: uint64(at % 3), Time: int64(at),
				}, Data: whole})
			}
		}
		if table.Close(); table.size() != 0 {
			t.Errorf("%d things are left of %d packets", table.size(), n)
		}
	})
}
