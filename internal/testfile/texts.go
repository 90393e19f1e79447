package testfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Read returns a text of the project, which is named by its path from the root of the tree. The
// tests about it are skipped on an emulated machine, which does not have the texts, since they do
// not depend on the kernel.
func Read(t *testing.T, name string) string {
	t.Helper()
	if testnet.Emulated() {
		t.Skip("asks the kernel for nothing, and " + name + " is not on the emulated machine")
	}
	text, err := os.ReadFile(filepath.Join(root(t), name))
	testnet.Must(t, err)
	return string(text)
}

// root is the directory above the tested package that has go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("the tests do not run in a tree with go.mod: ", err)
	return ""
}

// List reads a list of a text: the indented lines after the line that begins with the title. A
// line begins with a name in the first column of the list, and goes on with words; lines without a
// name continue the one before.
func List(t *testing.T, name, title string) map[string][]string {
	t.Helper()
	_, rest, ok := strings.Cut(Read(t, name), "\n"+title)
	if !ok {
		t.Fatalf("%s has no line that begins with %q", name, title)
	}
	_, rest, _ = strings.Cut(rest, "\n\n")
	lists, key := make(map[string][]string), ""
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "    ") {
			break
		}
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "     ") {
			key, words = words[0], words[1:]
		}
		lists[key] = append(lists[key], words...)
	}
	return lists
}

// Block returns the part of an indented block of a text that begins with the line that begins with
// these words, without the indent. It ends with the block.
func Block(t *testing.T, name, first string) string {
	t.Helper()
	const indent = "    "
	_, rest, ok := strings.Cut(Read(t, name), "\n"+indent+first)
	if !ok {
		t.Fatalf("%s has no indented line that begins with %q", name, first)
	}
	var block strings.Builder
	for line := range strings.Lines(indent + first + rest) {
		text, indented := strings.CutPrefix(line, indent)
		if !indented {
			break
		}
		block.WriteString(text)
	}
	return block.String()
}

// A Dashboard is as much of the dashboard in contrib/ as the tests look at.
type Dashboard struct {
	Panels []struct {
		Type, Title string
		Targets     []struct{ Expr string }
	}
}

// ReadDashboard returns the dashboard in contrib/.
func ReadDashboard(t *testing.T) (d Dashboard) {
	t.Helper()
	testnet.Must(t, json.Unmarshal([]byte(Read(t, "contrib/grafana-xdpcap.json")), &d))
	return d
}
