package documents_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The table of CONTRIBUTING.md is correct: each file and directory exists, at least two if NAME
// stands for several, and each word is in a file of its row. A word that begins with make is a
// target of make.
func TestContributing(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(testfile.Read(t, "CONTRIBUTING.md"), "\n## Where to change what\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (.*?) \| (.*) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	makefile := testfile.Read(t, "Makefile") + testfile.Read(t, "packaging/packages.mk")
	for _, row := range rows[1:] { // without the titles of the columns
		var words []string
		text := ""
		for _, m := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(row[2], -1) {
			span := m[1]
			if !strings.Contains(span, "/") && !strings.HasSuffix(span, ".md") && span != "docs" {
				words = append(words, span)
				continue
			}
			files, _ := filepath.Glob(filepath.Join("../../..", strings.ReplaceAll(span, "NAME", "*")))
			if least := min(1+strings.Count(span, "NAME"), 2); len(files) < least {
				t.Errorf("%s: %d files are at %s", row[1], len(files), span)
			}
			for _, file := range files {
				if info, err := os.Stat(file); err == nil && info.IsDir() {
					inside, _ := filepath.Glob(file + "/*.*")
					files = append(files, inside...)
				}
			}
			for _, file := range files {
				content, _ := os.ReadFile(file) // a directory has no content
				text += string(content)
			}
		}
		for _, word := range words {
			target, isTarget := strings.CutPrefix(word, "make ")
			switch {
			case isTarget:
				if !regexp.MustCompile(`(?m)^` + target + `:`).MatchString(makefile) {
					t.Errorf("%s: make has no target %s", row[1], target)
				}
			case strings.HasPrefix(word, "Test"): // TestNamedSourcesExist checks it
			case !regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text):
				t.Errorf("%s: none of its files has %s", row[1], word)
			}
		}
	}
}

// Every test and every source file that CONTRIBUTING.md, DESIGN.md and its pages name exists.
func TestNamedSourcesExist(t *testing.T) {
	t.Parallel()
	texts := append(systest.Internals(t), "CONTRIBUTING.md")
	tests, sources := testsOf(t), sourcesOf(t)
	for _, name := range texts {
		text := testfile.Read(t, name)
		for _, test := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(text, -1) {
			if !tests[test] && test != "TestName" {
				t.Errorf("%s names %s, which is no test", name, test)
			}
		}
		for _, source := range regexp.MustCompile(`[\w/.*-]*\w\.(?:go|c|h|sh)\b`).FindAllString(text, -1) {
			if !strings.Contains(sources, "/"+source+"\n") && !strings.Contains(source, "*") && !strings.Contains(source, "NAME") {
				t.Errorf("%s names %s, which is no file", name, source)
			}
		}
	}
}

// testsOf returns the names of all tests of the project.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	tests := make(map[string]bool)
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for path := range strings.Lines(sourcesOf(t)) {
		if path = strings.TrimSuffix(path, "\n"); !strings.HasSuffix(path, "_test.go") {
			continue
		}
		content, err := os.ReadFile(path)
		testnet.Must(t, err)
		for _, m := range declaration.FindAllSubmatch(content, -1) {
			tests[string(m[1])] = true
		}
	}
	return tests
}

// sourcesOf returns the paths of all files of the project, one per line.
func sourcesOf(t *testing.T) string {
	t.Helper()
	var paths strings.Builder
	testnet.Must(t, filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // a file that another test has created and removed
		}
		if err == nil {
			paths.WriteString(path + "\n")
		}
		return err
	}))
	return paths.String()
}
