package frame

import (
	"cmp"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// UsageWidth is the upper bound for the columns of the help.
const UsageWidth = 100

// Columns returns the width for a text that is printed once, such as the help: that of the
// terminal, within 60 to UsageWidth, or 80 if out is no terminal.
func Columns(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return max(60, min(columns, UsageWidth))
		}
	}
	return briefColumns
}

// IsUTF8 reports whether the locale's characters are UTF-8.
func IsUTF8() bool {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}

// gap matches the spaces between a term and its explanation.
var gap = regexp.MustCompile(`\S(  +)\S`)

// Fold breaks the lines of a text that are wider than width. A line with a term, two or more spaces
// and an explanation continues below the explanation, and any other line below its beginning. In
// prose the lines of a paragraph are joined before; otherwise only those of an explanation.
func Fold(text string, width int, prose bool) string {
	var all, lines []string  // lines: of the current paragraph
	var head string          // its indentation, and a term if it has one
	hang, termed := 0, false // hang: columns of the indentation of its further lines
	end := func() {
		all = append(all, foldParagraph(lines, head, hang, width)...)
		lines = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		at := gap.FindStringSubmatchIndex(line)
		continues := lines != nil && at == nil && indent == hang && (prose || termed) && line != ""
		if !continues {
			end()
			head, termed = line[:indent], at != nil
			if termed {
				head = line[:at[3]]
			}
			hang = utf8.RuneCountInString(head)
		}
		if lines = append(lines, line); line == "" {
			end()
		}
	}
	end()
	return strings.Join(all, "\n")
}

// foldParagraph returns the lines unchanged, or broken anew if one is too wide.
func foldParagraph(lines []string, head string, hang, width int) (all []string) {
	tooWide := func(line string) bool { return utf8.RuneCountInString(line) > width }
	if !slices.ContainsFunc(lines, tooWide) {
		return lines
	}
	line, empty := head, true
	for word := range strings.FieldsSeq(strings.TrimPrefix(strings.Join(lines, " "), head)) {
		if !empty && tooWide(line+" "+word) {
			all = append(all, line)
			line, empty = strings.Repeat(" ", hang), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return append(all, line)
}
