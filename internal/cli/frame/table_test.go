package frame

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tab := Table{}
	tab.Add("VERDICT", "PACKETS")
	tab.Add("µ", "1")
	tab.Add("redirected", "100000000")
	tab.Write(&out)
	want := "VERDICT       PACKETS\nµ                   1\nredirected  100000000\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// With any widths there is something to print.
func TestWidths(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{-1, 0, 1, 2, 3, 4, 1 << 20} {
		for _, s := range []string{"", "a", "ab", "abcdef", "über"} {
			for what, short := range map[string]string{"end": Shorten(s, columns), "middle": ShortenMiddle(s, columns)} {
				if n := utf8.RuneCountInString(short); n > max(columns, 0) || n < min(utf8.RuneCountInString(s), columns) || !utf8.ValidString(short) {
					t.Errorf("%q with %d columns, cut at its %s: %q", s, columns, what, short)
				}
			}
		}
	}
}
