package documents_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A program of another module that imports the packages does not get the dependencies of the
// command alone: neither compiled into it, nor in its go.mod or go.sum.
func TestLibraryNeeds(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	testnet.Must(t, err)
	dir := t.TempDir()
	var imports strings.Builder
	for _, name := range []string{"capture", "capture/file", "capture/recorder", "capture/stream", "filter", "filter/ebpf"} {
		fmt.Fprintf(&imports, "import _ %q\n", "github.com/xdpcap/xdpcap/"+name)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26\n\nrequire github.com/xdpcap/xdpcap v0.0.0\n\n" +
			"replace github.com/xdpcap/xdpcap => " + root + "\n",
		"main.go": "package main\n\n" + imports.String() + "\nfunc main() {}\n",
	} {
		testnet.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	// most modules are in the cache already, because this one needs them
	run := exec.Command("go", "list", "-mod=mod", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
	run.Stderr = os.Stderr
	compiled, err := run.Output()
	testnet.Must(t, err)
	found := map[string]string{"the program": string(compiled)}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		testnet.Must(t, err)
		found[name] = string(text)
	}
	for where, text := range found {
		if !strings.Contains(text, "github.com/cilium/ebpf") {
			t.Errorf("%s has not even what the packages need: %s", where, text)
		}
		for _, module := range []string{"github.com/spf13/", "github.com/prometheus/", "github.com/gdamore/"} {
			if strings.Contains(text, module) {
				t.Errorf("%s has %s: %s", where, module, text)
			}
		}
	}
}
