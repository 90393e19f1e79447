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

	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A part is a package of the project: its files without tests and generated ones, with their
// numbers of lines, and the packages that they import.
type part struct {
	files   map[string]int
	imports []string
	streams []string // files that name a standard stream of the process
}

// parts reads the packages of the module, by directory.
func parts(t *testing.T) map[string]*part {
	t.Helper()
	const module = "github.com/xdpcap/xdpcap/"
	root, all := filepath.Join("..", "..", ".."), make(map[string]*part)
	testnet.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
		if regexp.MustCompile(`\bos\.Std(out|err)\b`).Match(text) {
			p.streams = append(p.streams, d.Name())
		}
		for _, i := range file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if of, ok := strings.CutPrefix(path, module); ok && !slices.Contains(p.imports, of) {
				p.imports = append(p.imports, of)
			}
		}
		return nil
	}))
	return all
}

// The packages of the command line import exactly the packages in DESIGN.md, and only cmd/xdpcap
// imports the command line. Commands get their streams as arguments: only the command line itself
// names the standard streams.
func TestImports(t *testing.T) {
	t.Parallel()
	all := parts(t)
	rows := testfile.List(t, "DESIGN.md", "What the packages of the command line import")
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
		for _, file := range p.streams {
			if strings.HasPrefix(name, "internal/cli") && name+"/"+file != "internal/cli/cli.go" {
				t.Errorf("%s/%s: print to the process that the command was handed", name, file)
			}
		}
	}
}

// No package has more than 40 files, and no file more than 350 lines. docs/internals/layout.md
// names every package.
func TestPackageSizes(t *testing.T) {
	t.Parallel()
	const mostFiles, mostLines = 40, 350
	layout := testfile.Read(t, "docs/internals/layout.md")
	for name, p := range parts(t) {
		if n := len(p.files); n > mostFiles {
			t.Errorf("%s has %d files, and may have %d: find the second noun in it, and make that a package", name, n, mostFiles)
		}
		for file, lines := range p.files {
			if lines > mostLines {
				t.Errorf("%s/%s has %d lines, and may have %d: find the second noun in it, and make that a file", name, file, lines, mostLines)
			}
		}
		if !regexp.MustCompile(`\b` + filepath.Base(name) + `\b`).MatchString(layout) {
			t.Errorf("docs/internals/layout.md does not have %s", name)
		}
	}
}

// The name of each BPF program begins with xdpcap_, and fits into the 15 bytes that the kernel
// keeps of it.
func TestProgramNames(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../../bpf/*.c")
	testnet.Must(t, err)
	program, found := regexp.MustCompile(`\nSEC\("[a-z_.]+(/\w+)?"\)\nint (?:BPF_PROG\()?(\w+)`), 0
	for _, source := range sources {
		if filepath.Base(source) == "generator.c" {
			continue // for tests
		}
		text, err := os.ReadFile(source)
		testnet.Must(t, err)
		for _, m := range program.FindAllStringSubmatch(string(text), -1) {
			if found++; !strings.HasPrefix(m[2], "xdpcap_") || len(m[2]) > 15 {
				t.Errorf("%s: program %s", source, m[2])
			}
		}
	}
	if found < 40 {
		t.Errorf("%d programs", found)
	}
}
