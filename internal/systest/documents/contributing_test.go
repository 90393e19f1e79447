package documents_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testdoc"

	"github.com/xdpcap/xdpcap/internal/systest"
)

// A row of CONTRIBUTING.md's table names files and words of them.
type contributingRow struct {
	change       string
	files, words []string // as between backticks
}

// contributingRows reads the table: what is between backticks in the second column is a file or a
// directory if it has a slash or the suffix of a text, and a word otherwise.
func contributingRows(text string) (rows []contributingRow) {
	_, table, _ := strings.Cut(text, "\n## Where to change what\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^\| (.*?) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		row := contributingRow{change: m[1]}
		for i, span := range strings.Split(m[2], "`") {
			switch {
			case i%2 == 0:
			case strings.Contains(span, "/") || strings.HasSuffix(span, ".md") || span == "docs":
				row.files = append(row.files, span)
			default:
				row.words = append(row.words, span)
			}
		}
		rows = append(rows, row)
	}
	return rows[1:] // without the titles of the columns
}

// filesAt returns the files of the project at a path of the table. Those of a directory are the
// files in it. NAME stands for a name that is the same in the whole path.
func filesAt(t *testing.T, path string) (files []string) {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join("../../..", strings.ReplaceAll(path, "NAME", "*")))
	if err != nil {
		t.Fatal(err)
	}
	same := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(filepath.Join("../../..", path)), "NAME", "([a-z_]+)") + "$")
	for _, match := range matches {
		m := same.FindStringSubmatch(match)
		if m == nil || len(m) > 2 && m[1] != m[2] {
			continue
		}
		if info, err := os.Stat(match); err == nil && info.IsDir() {
			inside, _ := filepath.Glob(match + "/*.*")
			files = append(files, inside...)
			continue
		}
		files = append(files, match)
	}
	return files
}

// The table of CONTRIBUTING.md leads to what is there: each file and directory, at least two where
// NAME stands for several, and each word in a file of its row. A word that begins with Test is a
// test of the project, and one that begins with make a target of make.
func TestContributing(t *testing.T) {
	t.Parallel()
	rows := contributingRows(testdoc.Read(t, "CONTRIBUTING.md"))
	if len(rows) < 15 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	tests := testsOf(t)
	makefile := testdoc.Read(t, "Makefile") + testdoc.Read(t, "packaging/packages.mk")
	for _, row := range rows {
		if len(row.files) == 0 {
			t.Errorf("%s: the row names no file", row.change)
		}
		var text strings.Builder
		for _, path := range row.files {
			files := filesAt(t, path)
			if least := 1 + strings.Count(path, "NAME"); len(files) < min(least, 2) {
				t.Errorf("%s: %d files are at %s", row.change, len(files), path)
			}
			for _, file := range files {
				content, err := os.ReadFile(file)
				if err != nil {
					t.Error(err)
				}
				text.Write(content)
			}
		}
		for _, word := range row.words {
			target, isTarget := strings.CutPrefix(word, "make ")
			switch {
			case isTarget:
				if !regexp.MustCompile(`(?m)^` + target + `:`).MatchString(makefile) {
					t.Errorf("%s: make has no target %s", row.change, target)
				}
			case strings.HasPrefix(word, "Test"):
				if !tests[word] {
					t.Errorf("%s: there is no %s", row.change, word)
				}
			case !regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text.String()):
				t.Errorf("%s: none of its files has %s", row.change, word)
			}
		}
	}
}

// Every test and every source file that CONTRIBUTING.md, DESIGN.md and its pages name is there.
func TestNamedSourcesExist(t *testing.T) {
	t.Parallel()
	texts := append(systest.Internals(t), "CONTRIBUTING.md")
	tests, sources := testsOf(t), sourcesOf(t)
	for _, name := range texts {
		text := testdoc.Read(t, name)
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
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declaration.FindAllSubmatch(content, -1) {
			tests[string(m[1])] = true
		}
	}
	return tests
}

// sourcesOf returns the paths of all files of the project, a line for each.
func sourcesOf(t *testing.T) string {
	t.Helper()
	var paths strings.Builder
	err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // what another test has made and removed
		}
		if err == nil {
			paths.WriteString(path + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths.String()
}
