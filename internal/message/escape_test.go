package message

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Characters that a terminal would not print literally are escaped, and no others.
func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"eth0":            "eth0",
		`a "b" \c/ö日`:     `a "b" \c/ö日`,
		"\x1b[31mred":     `\x1b[31mred`,
		"two\nlines\ttab": `two\nlines\ttab`,
		"\xff\u202eab":    `\xff\u202eab`,
		"\u009b1m\x7f":    `\u009b1m\x7f`,
	} {
		if diff := cmp.Diff(want, Escape(in)); diff != "" {
			t.Error(diff)
		}
	}
}

// JSON has no character that a terminal would not print literally, and has the same values.
func TestEscapeJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"eth0":                   `"eth0"`,
		"ö日😀":                    `"ö日😀"`,
		"\u009b1m\x7f\u202e":     `"\u009b1m\u007f\u202e"`,
		"a\U000e0001b\x1b\n\xff": `"a\udb40\udc01b\u001b\n\ufffd"`,
	} {
		var b strings.Builder
		if err := NewJSONEncoder(&b).Encode(in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"\n", b.String()); diff != "" {
			t.Error(diff)
		}
		var back string
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back != strings.ToValidUTF8(in, "\ufffd") {
			t.Errorf("%q is %q again: %v", in, back, err)
		}
	}
}

// The command line in a file's comment can be given to a shell again.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	got := CommandLine([]string{"xdpcap", "-i", "eth0", "-w", "my file", "it's", "tcp[0] & 1 != 0", "", "\x1b[1m'\\"})
	want := `xdpcap -i eth0 -w 'my file' 'it'\''s' 'tcp[0] & 1 != 0' '' $'\x1b[1m\'\\'`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
