package frame

import (
	"cmp"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// UsageWidth is how many columns the help takes at most.
const UsageWidth = 100

// Columns is how wide a text may be that is printed once, such as the help: as wide as the
// terminal, but not wider than people like to read, and 80 columns where there is no terminal.
func Columns(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return max(60, min(columns, UsageWidth))
		}
	}
	return briefColumns
}

// IsUTF8 reports whether the locale has characters besides ASCII.
func IsUTF8() bool {
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
}

// gap is what separates a term from its explanation.
var gap = regexp.MustCompile(`\S(  +)\S`)

// Fold breaks the lines of a text that are wider than width. A line with a term, two or more spaces
// and an explanation goes on below the explanation, and any other line below its beginning. In
// prose the lines of a paragraph are joined before; otherwise only those of an explanation.
func Fold(text string, width int, prose bool) string {
	var all, lines []string // lines: those of the paragraph
	var head string         // what stands before its words: an indentation, perhaps a term
	hang, termed := 0, false
	end := func() {
		all = append(all, foldParagraph(lines, head, hang, width)...)
		lines = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		at := gap.FindStringSubmatchIndex(line)
		goesOn := lines != nil && at == nil && indent == hang && (prose || termed) && line != ""
		if !goesOn {
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

// foldParagraph breaks the lines of a paragraph anew if one is too wide.
func foldParagraph(lines []string, head string, hang, width int) (all []string) {
	fits := true
	for _, l := range lines {
		fits = fits && utf8.RuneCountInString(l) <= width
	}
	if fits {
		return lines
	}
	line, empty := head, true
	for word := range strings.FieldsSeq(strings.TrimPrefix(strings.Join(lines, " "), head)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
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
