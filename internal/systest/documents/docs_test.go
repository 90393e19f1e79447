package documents_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// code matches the parts of a page with a command line or a flag: indented lines that run xdpcap
// with their continuation lines, and text between backticks.
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

// Every flag of every command is in a page, as it is typed. A letter alone counts only in text
// about xdpcap, because other programs' command lines have letters, too.
func TestDocsNameEveryFlag(t *testing.T) {
	t.Parallel()
	named := make(map[string]bool)
	word := regexp.MustCompile(`(?:^|[\s\[])(--?[#A-Za-z][a-z-]*)`)
	for _, name := range systest.Pages(t) {
		for _, part := range code(testfile.Read(t, name)) {
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

// Every link of a page leads to an existing file of the project, and to an existing heading.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	links := 0
	all := append(systest.Pages(t), systest.Internals(t)...)
	for _, name := range append(all, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md") {
		for _, dead := range systest.DeadLinks(t, filepath.Join("..", "..", ".."), name) {
			t.Errorf("%s: the link to %s leads nowhere", name, dead)
		}
		links += len(systest.LinkTarget.FindAllString(testfile.Read(t, name), -1))
	}
	if links < 100 {
		t.Errorf("%d links were found in all texts", links)
	}
}

// docs/README.md, which GitHub displays for the directory, links every page for users, and
// DESIGN.md links every page for developers.
func TestDocsListEveryPage(t *testing.T) {
	t.Parallel()
	for list, pages := range map[string][]string{"docs/README.md": systest.Pages(t), "DESIGN.md": systest.Internals(t)} {
		text := testfile.Read(t, list)
		for _, page := range pages[1:] {
			from, err := filepath.Rel(filepath.Dir(list), page)
			if err != nil || page != list && !strings.Contains(text, "]("+from+")") {
				t.Errorf("%s has no link to %s: %v", list, page, err)
			}
		}
	}
}

// The page has the steps to verify a release, or the sentence that no release is signed, as long as
// no key can sign.
func TestDocsReleaseSigners(t *testing.T) {
	t.Parallel()
	keys := regexp.MustCompile(`(?m)^[^#\n]`).MatchString(testfile.Read(t, "packaging/release-signers"))
	if says := strings.Contains(testfile.Read(t, "docs/install.md"), "No release is signed yet"); says == keys {
		t.Errorf("release-signers has keys: %v; docs/install.md says that no release is signed: %v", keys, says)
	}
}
