package frame

import "testing"

// Long lines go on below where their text begins, and whole paragraphs stay as they are if they
// fit.
func TestFold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want string
		prose      bool
	}{
		{"", "", true},
		{"short\nlines stay", "short\nlines stay", true},
		{"a paragraph of two\nlines is joined\n\nand ended", "a paragraph of\ntwo lines is\njoined\n\nand ended", true},
		{"  term  its long text\n        goes on", "  term  its\n        long\n        text\n        goes on", true},
		{"  command --one-flag\n  command", "  command\n  --one-flag\n  command", false},
		{"  ✓ tick  a b c d e f", "  ✓ tick  a b c\n          d e f", true},
		{"    a-word-without-any-space", "    a-word-without-any-space", true},
	} {
		if got := Fold(test.text, 15, test.prose); got != test.want {
			t.Errorf("%q:\n%s\nwant\n%s", test.text, got, test.want)
		}
	}
}
