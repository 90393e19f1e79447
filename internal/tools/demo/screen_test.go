package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The colours of a terminal's line are those of the picture, and go on into the next line.
func TestStretches(t *testing.T) {
	t.Parallel()
	s := style{color: -1}
	got := append(stretches("plain \x1b[1;31mbold red\x1b[0m \x1b[7mback", &s), stretches("wards\x1b[27m\x1b[2mfaint", &s)...)
	want := []stretch{
		{"plain ", style{color: -1}}, {"bold red", style{color: 1, bold: true}}, {" ", style{color: -1}},
		{"back", style{color: -1, reverse: true}}, {"wards", style{color: -1, reverse: true}}, {"faint", style{color: -1, faint: true}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(stretch{}, style{})); diff != "" {
		t.Error(diff)
	}
}

// A picture has a text for each stretch, at the place of its column, and escapes what XML would
// read.
func TestSVG(t *testing.T) {
	t.Parallel()
	got := svg("a & b", []string{"a < \x1b[32mb", ""}, 10)
	for _, want := range []string{
		"<title>a &amp; b</title>", `width="112" height="64"`,
		`<text x="14.0" y="28" textLength="33.6" xml:space="preserve">a &lt; </text>`,
		`<text x="47.6" y="28" textLength="8.4" xml:space="preserve" style="fill: #7ee787">b</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s:\n%s", want, got)
		}
	}
}
