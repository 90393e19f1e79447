package file_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli"
)

// The properties of formats are only in their formatKinds: a format that is added is written and
// found by its name, and it is in the help, the completion, the settings and the errors of both
// commands that write files. Serial, because it changes the formats and the environment of the
// process.
func TestAddedFormat(t *testing.T) {
	t.Setenv(cli.SettingsVariable, os.DevNull)
	added := file.AddFormat(t, "fake", "a header alone", ".fake", "head\n")

	var out bytes.Buffer
	w := file.NewWriter(&out, file.Options{Format: added})
	if err := w.Begin(capture.Description{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.End(nil); err != nil || out.String() != "head\n" {
		t.Errorf("wrote %q: %v", out.String(), err)
	}
	if f, c := file.FormatByName("out.FAKE.gz"); f != added || c != file.Gzip {
		t.Errorf("out.FAKE.gz is %v, compressed by %d", f, c)
	}

	root := cli.NewRoot()
	read, _, err := root.Find([]string{"read"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		of   *cobra.Command
		help string
	}{{root, "or fake, a header alone (default"}, {read, "or fake, which is printed without -w (default"}} {
		if help := test.of.Flags().Lookup("format").Usage; !strings.Contains(help, test.help) {
			t.Errorf("the help of %s has no %q: %s", test.of.Name(), test.help, help)
		}
		complete, _ := test.of.GetFlagCompletionFunc("format")
		if words, _ := complete(test.of, nil, ""); !slices.Contains(words, "fake") {
			t.Errorf("%s --format completes to %v", test.of.Name(), words)
		}
		if brief := outputOf(t, append(strings.Fields(test.of.CommandPath())[1:], "-h")...); !strings.Contains(brief, "|fake[.gz") {
			t.Errorf("%s -h has no |fake: %s", test.of.Name(), brief)
		}
	}

	path := filepath.Join(t.TempDir(), "out")
	for _, test := range []struct{ setting, line, want string }{
		{"", "-w " + path + ".txt", ".csv or .fake, or --format"},
		{"", "-w " + path + " --format none", "must be pcapng, pcap, json, csv or fake"},
		{"none", "-w " + path, "must be pcapng, pcap, json, csv or fake"},
		{"fake", "-w " + path + " --ring 1", "--ring 1: must be at least"},
		{"fake", "-w " + path + " --sample drop=1", "a fake file cannot record how many packets each one stands for"},
	} {
		t.Setenv(cli.SettingPrefix+"FORMAT", test.setting)
		if test.setting == "" {
			os.Unsetenv(cli.SettingPrefix + "FORMAT")
		}
		root := cli.NewRoot()
		root.SetArgs(append([]string{"-i", "none0"}, strings.Fields(test.line)...))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with the setting %q: %v, want %s", test.line, test.setting, err, test.want)
		}
	}
}

// outputOf returns the output of a command line.
func outputOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	return out.String()
}
