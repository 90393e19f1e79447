package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// setSettings gives the test files of settings, for the machine and for the user.
func setSettings(t *testing.T, machine, user string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{filepath.Join(dir, "xdpcap.conf"): machine, filepath.Join(dir, "xdpcap", "config"): user}
	if err := os.Mkdir(filepath.Join(dir, "xdpcap"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	was := systemSettings
	systemSettings = filepath.Join(dir, "xdpcap.conf")
	t.Cleanup(func() { systemSettings = was })
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(settingsFileVariable, "")
}

// The command line counts more than the environment, that more than the user's file, and that more
// than the machine's.
func TestSettings(t *testing.T) {
	skipEmulated(t)
	const machine = "# of this machine\n\ninterface = eth0\ninterface=eth1\nsnapshot-length = 64\nper-cpu = true\n"
	for _, test := range []struct {
		name, machine, user string
		env                 map[string]string
		args                string
		want                map[string]string // the values of flags, or of "error"
	}{
		{"none", "", "", nil, "", map[string]string{"interface": "[]", "snapshot-length": ""}},
		{"machine", machine, "", nil, "", map[string]string{"interface": "[eth0,eth1]", "snapshot-length": "64"}},
		{"user", machine, "interface = eth2\n", nil, "", map[string]string{"interface": "[eth2]", "snapshot-length": "64"}},
		{"environment", machine, "snapshot-length=32\n", map[string]string{"XDPCAP_INTERFACE": "eth3", "XDPCAP_NOSUCH": "1"}, "",
			map[string]string{"interface": "[eth3]", "snapshot-length": "32"}},
		{"empty", "", "interface = eth2\n", map[string]string{"XDPCAP_INTERFACE": ""}, "", map[string]string{"interface": "[eth2]"}},
		{"command line", machine, "", map[string]string{"XDPCAP_INTERFACE": "eth3"}, "-i eth4 -s 16",
			map[string]string{"interface": "[eth4]", "snapshot-length": "16"}},
		{"in its place", machine, "promiscuous-mode = true\nexpression-file = x", nil, "--hook /x -p tcp",
			map[string]string{"interface": "[]", "promiscuous-mode": "false", "expression-file": ""}},
		{"without a value", "", "json = true\nverbose = 2\nquiet = true\n", nil, "",
			map[string]string{"json": onStderr, "verbose": "2", "quiet": "true"}},
		{"another command", machine, "", nil, "stats", map[string]string{"interface": "[eth0,eth1]", "per-cpu": "true"}},
		{"bad value", "", "interface = x\npacket-count = five", nil, "", map[string]string{"error": "/config:2: -c five: must be a whole number without a sign"}},
		{"bad variable", "", "", map[string]string{"XDPCAP_COUNT": "five"}, "stats",
			map[string]string{"error": "XDPCAP_COUNT: -c five: must be a whole number without a sign"}},
		{"bad flag", "line-buffered = true\n", "", nil, "", map[string]string{"error": "/xdpcap.conf:1: no command has a flag --line-buffered"}},
		{"another tool's", "immediate-mode = true\n", "", nil, "", map[string]string{"error": "no command has a flag --immediate-mode"}},
		{"bad line", "interface eth0\n", "", nil, "", map[string]string{"error": `/xdpcap.conf:1: "interface eth0" has no =: a line is FLAG = VALUE`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			setSettings(t, test.machine, test.user)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			root := newRoot()
			got := make(map[string]string)
			root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
				if err := applySettings(cmd); err != nil {
					got["error"] = err.Error()
				}
				for name := range test.want {
					if f := cmd.Flags().Lookup(name); f != nil {
						got[name] = f.Value.String()
					}
				}
				return errDone
			}
			root.SetArgs(strings.Fields(test.args))
			if err := root.Execute(); err != errDone {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got[name] != want && (name != "error" || !strings.Contains(got[name], want)) {
					t.Errorf("%s: %q, want %q", name, got[name], want)
				}
			}
			if got["error"] != "" && test.want["error"] == "" {
				t.Error(got["error"])
			}
		})
	}
}

// errDone ends a command before it runs.
var errDone = errors.New("done")

// config says what is set and from where, and finds what cannot be set.
func TestConfig(t *testing.T) {
	skipEmulated(t)
	run := func() (string, error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{"config"})
		err := root.Execute()
		return out.String(), err
	}
	setSettings(t, "", "")
	out, err := run()
	if want := "nothing is set by XDPCAP_* or in " + strings.Join(settingsFiles(), " or ") + "\n"; err != nil || out != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	setSettings(t, "interface = eth0\nquiet = true\n", "interface = \x1b[1m\n")
	t.Setenv("XDPCAP_SNAPSHOT_LENGTH", "128")
	files := settingsFiles()
	out, err = run()
	want := [][]string{
		{"FLAG", "VALUE", "FROM"},
		{"interface", `\x1b[1m`, files[1] + ":1"},
		{"quiet", "true", files[0] + ":2"},
		{"snapshot-length", "128", "XDPCAP_SNAPSHOT_LENGTH"},
	}
	var got [][]string
	for line := range strings.Lines(out) {
		got = append(got, strings.Fields(line))
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	t.Setenv("XDPCAP_INTERVAL", "soon")
	if _, err := run(); err == nil || !strings.HasPrefix(err.Error(), "XDPCAP_INTERVAL: --interval soon: must be a time") {
		t.Errorf("a value that a command does not take: %v", err)
	}
	t.Setenv(settingsFileVariable, "/nosuch")
	if _, err := run(); err == nil || err.Error() != "settings: open /nosuch: no such file or directory" {
		t.Errorf("XDPCAP_CONFIG with a file that is not there: %v", err)
	}
}

// A process takes its flags from the environment.
func TestSettingsOfProcess(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ count, want string }{
		{"1", "listening on " + pair.RxName},
		{"x", "xdpcap: XDPCAP_COUNT: -c x: must be a whole number"},
	} {
		cmd := command("stats", "--interval", "20ms")
		cmd.Env = append(cmd.Env, "XDPCAP_INTERFACE="+pair.RxName, "XDPCAP_COUNT="+test.count)
		if out := runInside(t, pair.Rx, cmd); !strings.Contains(out, test.want) {
			t.Errorf("%s does not say %s", out, test.want)
		}
	}
	cmd := command("--json")
	cmd.Env = append(cmd.Env, "XDPCAP_PACKET_COUNT=x")
	if s := account(t, runInside(t, pair.Rx, cmd)); !strings.HasPrefix(s.Error, "XDPCAP_PACKET_COUNT: -c x") {
		t.Errorf("the object says %q", s.Error)
	}
}
