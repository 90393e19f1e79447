package frame

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// A bar has the right length for all numbers, and is empty for none alone.
func TestBar(t *testing.T) {
	t.Parallel()
	const width, most = 50, float64(math.MaxUint64)
	for _, test := range []struct {
		share  float64
		length int
		blocks string // without the spaces
	}{
		{0, 0, ""}, {2, width, strings.Repeat("█", width)}, {1, width, strings.Repeat("█", width)}, {1 / most, 1, "▏"},
		{0.5, width / 2, strings.Repeat("█", width/2)}, {0.03, 2, "█▌"},
	} {
		got := (&Page{}).Bar(test.share, width)
		if n := strings.Count(got, "#"); n != test.length || len(got) != width {
			t.Errorf("%g: %q, want %d of %d", test.share, got, test.length, width)
		}
		got = (&Page{Blocks: true}).Bar(test.share, width)
		if strings.TrimRight(got, " ") != test.blocks || utf8.RuneCountInString(got) != width {
			t.Errorf("%g: %q, want %q", test.share, got, test.blocks)
		}
	}
}

// Names are shortened for a narrow window, addresses in their middle, the widest first, and numbers
// never. In a pipe nothing is shortened.
func TestTableNarrow(t *testing.T) {
	t.Parallel()
	table := func(p *Page) string {
		var b bytes.Buffer
		p.Writer = &b
		t := Table{Left: 1, Addresses: []int{1}}
		t.Add("PROGRAM", "FROM", "PACKETS")
		t.Add("a_program_with_a_name", "[2001:db8::1]:443", "123456789012")
		t.AddLost(true, "lost", "192.0.2.1:5000", "7")
		t.AddLost(false, "kept", "", "0")
		t.Write(p)
		return b.String()
	}
	for columns, want := range map[int]string{
		0: "PROGRAM                FROM                    PACKETS\n" +
			"a_program_with_a_name  [2001:db8::1]:443  123456789012\n" +
			"\x1b[31mlost                   192.0.2.1:5000                7\x1b[m\n" +
			"kept                                                 0\n",
		40: "PROGRAM       FROM               PACKETS\n" +
			"a_program_…   [2001:…::1]:443  123456789012\n",
		10: "PROGR…  FROM         PACKETS\n" +
			"a_pro…  [2…443  123456789012\n" +
			"\x1b[31mlost    19…000             7\x1b[m\n" +
			"kept                       0\n",
	} {
		got := table(&Page{Columns: columns, Colored: true})
		if columns == 40 {
			for line := range strings.Lines(got) {
				line = strings.NewReplacer(red, "", noColor, "").Replace(line)
				if n := utf8.RuneCountInString(line) - 1; n > 40 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if !strings.Contains(got, "123456789012") || !strings.Contains(got, "]:443") {
				t.Error(got)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
	if plain := table(&Page{}); strings.Contains(plain, "\x1b") {
		t.Errorf("colours where none are wanted: %q", plain)
	}
}

// A line that is cut stays as wide as the window, with its colours, and ends them.
func TestCutLine(t *testing.T) {
	t.Parallel()
	text := "ab" + red + "cdef" + noColor + "gh"
	for columns, want := range map[int]string{
		8: text, 7: "ab" + red + "cdef" + noColor + "…", 6: "ab" + red + "cdef" + noColor, 4: "ab" + red + "c…" + noColor, 2: "ab", 1: "…", 0: "",
	} {
		if got := cutLine(text, columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}
