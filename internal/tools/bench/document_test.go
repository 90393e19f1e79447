package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFill(t *testing.T) {
	t.Parallel()
	const before = "Text.\n\n<!-- begin sizing: by hand -->\nold\n<!-- end sizing -->\nMore text.\n"
	r := testResults(t)
	once, err := r.fill(before)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(once, "old\n") || !strings.HasPrefix(once, "Text.\n\n<!-- begin sizing: by hand -->\nMeasured on ") ||
		!strings.HasSuffix(once, "\n<!-- end sizing -->\nMore text.\n") {
		t.Errorf("filled:\n%s", once)
	}
	if twice, err := r.fill(once); err != nil || twice != once {
		t.Errorf("filled again: %v\n%s", err, cmp.Diff(once, twice))
	}
	for _, wrong := range []string{"no block", "<!-- begin speed: x -->\nno end\n", "<!-- begin speed"} {
		if _, err := r.fill(wrong); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

// The figures in the documents are those of docs/speed.txt: make bench writes them all.
func TestDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	r, err := readResults(filepath.Join(root, "docs", "speed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"docs/speed.svg": r.chart()}
	for _, name := range []string{"README.md", "docs/speed.md", "docs/sizing.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if want[name], err = r.fill(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s has other figures than docs/speed.txt (-want +got):\n%s", name, diff)
		}
	}
}
