package documents_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testdoc"
)

// README.md is read in a few minutes: what is longer has a page of its own in docs/.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(testdoc.Read(t, "README.md"), "\n"); lines > 200 {
		t.Errorf("README.md has %d lines, 200 at the most: move some to docs/", lines)
	}
}

// DESIGN.md is read from its beginning to its end: what is looked up has a page of its own in
// docs/internals.
func TestDesignIsShort(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(testdoc.Read(t, "DESIGN.md"), "\n"); lines > 700 {
		t.Errorf("DESIGN.md has %d lines, 700 at the most: move some to docs/internals", lines)
	}
}

// The words of DESIGN.md are few, in alphabetical order, and each has one row.
func TestDesignWords(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(testdoc.Read(t, "DESIGN.md"), "\n## Words\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var words []string
	for _, m := range regexp.MustCompile(`(?m)^\| (.*?) \| .* \|$`).FindAllStringSubmatch(section, -1) {
		words = append(words, m[1])
	}
	if len(words) < 20 || words[0] != "word" {
		t.Fatalf("the table of words begins with %q", words)
	}
	words = words[1:]
	if len(words) > 45 {
		t.Errorf("%d words, 45 at the most: explain a word that one text needs in that text", len(words))
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(words))); !slices.Equal(words, sorted) {
		t.Errorf("the words are not sorted, or one is there twice: %s", cmp.Diff(sorted, words))
	}
}

// code are the parts of a page in which a command line or a flag stands: indented lines that run
// xdpcap, with those that continue them, and what is between backticks.
func code(page string) (parts []string) {
	var text strings.Builder
	goesOn := false
	for line := range strings.Lines(page) {
		switch {
		case !strings.HasPrefix(line, "    "):
			text.WriteString(line)
			goesOn = false
		case goesOn || strings.Contains(line, "xdpcap "):
			parts = append(parts, line)
			goesOn = strings.HasSuffix(line, "\\\n")
		}
	}
	for i, span := range strings.Split(text.String(), "`") {
		if i%2 == 1 {
			parts = append(parts, span)
		}
	}
	return parts
}

// Every flag of every command stands in a page, as it is typed. A letter alone counts only where
// xdpcap has it, since other programs' command lines have letters, too.
func TestDocsNameEveryFlag(t *testing.T) {
	t.Parallel()
	named := make(map[string]bool)
	word := regexp.MustCompile(`(?:^|[\s\[])(--?[#A-Za-z][a-z-]*)`)
	for _, name := range systest.Pages(t) {
		for _, part := range code(testdoc.Read(t, name)) {
			if strings.HasPrefix(part, "-") || strings.Contains(part, "xdpcap") {
				for _, m := range word.FindAllStringSubmatch(part, -1) {
					named[m[1]] = true
				}
			}
		}
	}
	root := cli.NewRoot()
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !named["--"+f.Name] && (f.Shorthand == "" || !named["-"+f.Shorthand]) {
				t.Errorf("no page names --%s of %s", f.Name, cmd.Name())
			}
		})
	}
}

// Every link of a text leads to a file of the project, and to a heading that is there.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	links := 0
	all := append(systest.Pages(t), systest.Internals(t)...)
	for _, name := range append(all, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md") {
		for _, dead := range systest.DeadLinks(t, filepath.Join("..", "..", ".."), name) {
			t.Errorf("%s: the link to %s leads nowhere", name, dead)
		}
		links += len(systest.LinkTarget.FindAllString(testdoc.Read(t, name), -1))
	}
	if links < 100 {
		t.Errorf("%d links were found in all texts", links)
	}
}

// docs/README.md, which GitHub shows for the directory, leads to every page.
func TestDocsListEveryPage(t *testing.T) {
	t.Parallel()
	list := testdoc.Read(t, "docs/README.md")
	for _, name := range systest.Pages(t) {
		page := strings.TrimPrefix(name, "docs/")
		if page != "README.md" && !strings.Contains(list, "]("+page+")") {
			t.Errorf("docs/README.md has no link to %s", page)
		}
	}
}

// DESIGN.md leads to every page about the inside.
func TestDesignListsEveryPage(t *testing.T) {
	t.Parallel()
	design := testdoc.Read(t, "DESIGN.md")
	for _, name := range systest.Internals(t) {
		if name != "DESIGN.md" && !strings.Contains(design, "]("+name+")") {
			t.Errorf("DESIGN.md has no link to %s", name)
		}
	}
}

// The list at the top of a page has a link for each of its headings of the second
// level, in their order.
func TestDocsContents(t *testing.T) {
	t.Parallel()
	for _, name := range append(systest.Pages(t), systest.Internals(t)...) {
		text := testdoc.Read(t, name)
		if strings.HasSuffix(name, "README.md") || name == "DESIGN.md" {
			continue
		}
		var listed []string
		for _, m := range regexp.MustCompile(`(?m)^- \[.*\]\(#(.*)\)$`).FindAllStringSubmatch(text, -1) {
			listed = append(listed, m[1])
		}
		text = regexp.MustCompile(`(?m)^###+ .*$`).ReplaceAllString(text, "")
		if want := systest.Headings(text)[1:]; !slices.Equal(listed, want) {
			t.Errorf("%s lists %q, and has the headings %q", name, listed, want)
		}
	}
}
