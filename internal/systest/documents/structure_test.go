package documents_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testdoc"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A part is a package of the project: the files that it has without tests and generated ones, with
// their numbers of lines, and which other packages they import.
type part struct {
	files   map[string]int
	imports []string
}

// parts reads the packages of the module, by their directories.
func parts(t *testing.T) map[string]*part {
	t.Helper()
	const module = "github.com/xdpcap/xdpcap/"
	root, all := filepath.Join("..", "..", ".."), make(map[string]*part)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(name, ".") && name != ".":
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_bpfel.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		p := all[filepath.Dir(name)]
		if p == nil {
			p = &part{files: make(map[string]int)}
			all[filepath.Dir(name)] = p
		}
		p.files[d.Name()] = bytes.Count(text, []byte("\n"))
		for _, i := range file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if of, ok := strings.CutPrefix(path, module); ok && !slices.Contains(p.imports, of) {
				p.imports = append(p.imports, of)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The packages that the command line is made of import those that DESIGN.md says, and nothing but
// cmd/xdpcap imports the command line.
func TestImports(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	all := parts(t)
	rows := testdoc.List(t, "DESIGN.md", "What the packages of the command line import")
	for name := range all {
		if of, ok := strings.CutPrefix(name, "internal/cli/"); ok && rows["cli/"+of] == nil {
			t.Errorf("DESIGN.md does not say what %s imports", name)
		}
	}
	for name, want := range rows {
		p := all["internal/"+name]
		if p == nil {
			t.Errorf("DESIGN.md names internal/%s, which is not there", name)
			continue
		}
		var got []string
		for _, i := range p.imports {
			got = append(got, strings.TrimPrefix(i, "internal/"))
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(strings.Join(want, " "), strings.Join(got, " ")); diff != "" {
			t.Errorf("DESIGN.md (-) and the imports of internal/%s (+) differ: %s", name, diff)
		}
	}
	for name, p := range all {
		if name != "cmd/xdpcap" && !strings.HasPrefix(name, "internal/cli") && slices.Contains(p.imports, "internal/cli") {
			t.Errorf("%s imports internal/cli", name)
		}
	}
}

// Commands are handed what they print to: only the command line itself names the standard streams.
func TestCommandsPrintToWhatTheyAreHanded(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	root := filepath.Join("..", "..", "..", "internal", "cli")
	stream := regexp.MustCompile(`\bos\.Std(out|err)\b`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == filepath.Join(root, "cli.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if found := stream.Find(text); found != nil {
			t.Errorf("%s has %s: print to the process that the command was handed", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No package has more than 40 files.
func TestPackageSizes(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	const most = 40
	for name, p := range parts(t) {
		if n := len(p.files); n > most {
			t.Errorf("%s has %d files, and may have %d: find the second noun in it, and make that a package", name, n, most)
		}
	}
}

// No file has more than 350 lines.
func TestPackageSizesInLines(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	const most = 350
	for name, p := range parts(t) {
		for file, lines := range p.files {
			if lines > most {
				t.Errorf("%s/%s has %d lines, and may have %d: find the second noun in it, and make that a file", name, file, lines, most)
			}
		}
	}
}

// docs/internals/layout.md names every package, and every file that it names is there, in the
// directory under which it stands.
func TestLayout(t *testing.T) {
	t.Parallel()
	page := testdoc.Read(t, "docs/internals/layout.md")
	named, dir := make(map[string]bool), ""
	file := regexp.MustCompile(`[\w/.-]*\w\.(?:go|c|h|sh)\b`)
	for line := range strings.Lines(page) {
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		lead, _, _ := strings.Cut(text, "  ")
		words := strings.Fields(lead)
		if indent == 0 || len(words) == 0 {
			continue
		}
		if indent == 4 {
			dir = words[0]
		}
		if indent <= 6 {
			for _, word := range words {
				named[filepath.Base(word)] = true
			}
		}
		for _, m := range regexp.MustCompile(`(\w+)/`).FindAllStringSubmatch(text, -1) {
			named[m[1]] = true
		}
		for _, name := range file.FindAllString(text, -1) {
			if !isBelow(filepath.Join("..", "..", "..", dir), name) && !isBelow(filepath.Join("..", "..", ".."), name) {
				t.Errorf("docs/internals/layout.md has %s below %s, which is not there", name, dir)
			}
		}
	}
	for name := range parts(t) {
		if !named[filepath.Base(name)] {
			t.Errorf("docs/internals/layout.md does not have %s", name)
		}
	}
}

// isBelow tells whether a file is in a directory or in one directly in it.
func isBelow(dir, name string) bool {
	for _, pattern := range []string{filepath.Join(dir, name), filepath.Join(dir, "*", name)} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return true
		}
	}
	return false
}
