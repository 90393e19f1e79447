package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// checkGolden compares text that a command prints with what it shall be, and with the width of a terminal.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	for line := range strings.Lines(string(got)) {
		n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		if n > maxColumns && filepath.Ext(name) == ".txt" {
			t.Errorf("%s: %d columns: %s", name, n, line)
		}
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}
