package systest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Pages returns the pages for users: README.md and the files in docs/.
func Pages(t *testing.T) []string {
	t.Helper()
	return append([]string{"README.md"}, texts(t, "docs")...)
}

// Internals returns the pages for developers: DESIGN.md and the files in docs/internals.
func Internals(t *testing.T) []string {
	t.Helper()
	return append([]string{"DESIGN.md"}, texts(t, "docs/internals")...)
}

// texts returns the names of the pages in a directory of the project.
func texts(t *testing.T, dir string) (names []string) {
	t.Helper()
	if testnet.Emulated() {
		t.Skip("asks the kernel for nothing, and the pages are not on the emulated machine")
	}
	found, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%d pages in %s: %v", len(found), dir, err)
	}
	for _, path := range found {
		names = append(names, dir+"/"+filepath.Base(path))
	}
	return names
}

// headings returns the anchors that GitHub gives the headings of a page.
func headings(page string) (anchors []string) {
	notInAnchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(words, " ", "-"))
	}
	return anchors
}

// LinkTarget matches the target of a Markdown link, also if the link's text spans two lines.
var LinkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// DeadLinks checks the links of a page below root, and returns those whose file or heading does not
// exist.
func DeadLinks(t *testing.T, root, page string) (dead []string) {
	t.Helper()
	path := filepath.Join(root, page)
	for _, m := range LinkTarget.FindAllStringSubmatch(Contents(t, path), -1) {
		file, anchor, hasAnchor := strings.Cut(m[1], "#")
		to := path
		if file != "" {
			to = filepath.Join(filepath.Dir(path), file)
		}
		if info, err := os.Stat(to); err != nil || !info.Mode().IsRegular() {
			dead = append(dead, m[1])
		} else if hasAnchor && !slices.Contains(headings(Contents(t, to)), anchor) {
			dead = append(dead, m[1])
		}
	}
	return dead
}

// MakeTarget runs a target of the Makefile with the binary that was built.
func MakeTarget(t *testing.T, target string, variables ...string) (output string) {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-C", "../../..", "-o", "build", target}, variables...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
	return string(out)
}

// NeedBinary skips a test if make has not built the binary that the test installs.
func NeedBinary(t *testing.T) {
	t.Helper()
	if os.Getenv("XDPCAP") == "" {
		t.Skip("installs bin/xdpcap: make test builds it")
	}
}
