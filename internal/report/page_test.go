package report

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hostile is a text that a file or a client may have chosen.
const hostile = `</title></style><script>alert("1")</script><img src=x onerror='alert(2)'>{{.}}` + "\u202e\x1b[31m&amp;"

// sample has hostile in each of its texts.
func sample(live bool) *Page {
	marks := []Mark{{Label: hostile, Value: 3, Text: hostile, Bad: 1}, {Label: "b", Value: 6, Text: "6"}, {Label: "none"}}
	figure := func() Figure {
		return Figure{
			Caption: hostile,
			Columns: append(Texts("Name", hostile), Numbers("N")...),
			Rows:    []Row{{Cells: []string{hostile, "x", "3"}, Bad: true}, {Cells: []string{"b", "y", "6"}}},
			Charts:  []Chart{{Title: hostile, Marks: marks}, {Title: "columns", Columns: true, Marks: marks}, {Title: "empty"}, {Title: "empty", Columns: true}},
		}
	}
	return &Page{
		Title: hostile, Lead: []string{hostile}, Facts: []Fact{{Name: hostile, Value: hostile, Bad: true}}, Live: live,
		Sections: []Section{{Title: hostile, Text: []string{hostile}, Figures: []Figure{figure(), figure()}}},
	}
}

// Whatever the texts are, the page has only its own elements, and loads nothing.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		var text bytes.Buffer
		if err := sample(live).Write(&text); err != nil {
			t.Fatal(err)
		}
		root, err := html.Parse(&text)
		if err != nil {
			t.Fatal(err)
		}
		counts, ids := make(map[string]int), make(map[string]bool)
		for n := range root.Descendants() {
			if n.Type == html.TextNode && strings.ContainsAny(n.Data, "\u202e\x1b") {
				t.Errorf("a text has control characters: %q", n.Data)
			}
			if n.Type != html.ElementNode {
				continue
			}
			counts[n.Data]++
			for _, a := range n.Attr {
				switch {
				case strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" || a.Key == "href" && a.Val != "data:,":
					t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
				case a.Key == "id" && ids[a.Val]:
					t.Errorf("two elements have the id %s", a.Val)
				case a.Key == "id":
					ids[a.Val] = true
				}
			}
		}
		scripts := 0
		if live {
			scripts = 1
		}
		// 8 charts with a title each, 3 columns with one, and the page's
		for name, want := range map[string]int{"script": scripts, "img": 0, "style": 1, "svg": 8, "title": 1 + 8 + 2*3, "desc": 8, "table": 2, "caption": 2, "h1": 1, "h2": 1} {
			if counts[name] != want {
				t.Errorf("live %v: %d elements %s, want %d", live, counts[name], name, want)
			}
		}
	}
}

// The largest mark has the whole room, and what was lost is a part of its mark.
func TestShapes(t *testing.T) {
	t.Parallel()
	bars := (&Chart{Marks: []Mark{{Value: 50, Bad: 25}, {Value: 100, Bad: 100}, {}}}).Shapes()
	if bars[0].Width != "38.000%" || bars[0].BadX != "19.000%" || bars[0].BadWidth != "19.000%" || bars[1].Width != "76.000%" || bars[1].BadX != "0.000%" || bars[2].Width != "0.000%" {
		t.Errorf("bars: %+v", bars)
	}
	columns := (&Chart{Columns: true, Marks: []Mark{{Value: 50, Bad: 25}, {Value: 100}}}).Shapes()
	if columns[0].Height != columnsHeight/2 || columns[0].BadHeight != columnsHeight/4 || columns[0].BadY != columns[0].Y || columns[1].Y != columnsTop || columns[1].X != "50.000%" {
		t.Errorf("columns: %+v", columns)
	}
}

// A label that is too long keeps its beginning and its end.
func TestShorten(t *testing.T) {
	t.Parallel()
	if got := shorten(strings.Repeat("a", 30)+strings.Repeat("ü", 30), 11); got != "aaaaa…üüüü" {
		t.Error(got)
	}
	if got := shorten("short", 5); got != "short" {
		t.Error(got)
	}
}
