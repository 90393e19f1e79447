package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// setSettings makes files of settings, for the machine and for the user.
func setSettings(t *testing.T, machine, user string) settingsFiles {
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
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(SettingsVariable, "")
	return settingsFiles{Machine: filepath.Join(dir, "xdpcap.conf")}
}

// The command line overrides the environment, which overrides the user's file, which overrides the
// machine's.
func TestSettings(t *testing.T) {
	const machine = "# of this machine\n\ninterface = eth0\ninterface=eth1\nsnapshot-length = 64\nper-cpu = true\n"
	tcpdumps := map[string]string{"direction": "inout", "format": "pcap"}
	for _, test := range []struct {
		name, machine, user string // name is also that of the program
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
			map[string]string{"json": frame.StderrFile, "verbose": "2", "quiet": "true"}},
		{"another command", machine, "", nil, "stats", map[string]string{"interface": "[eth0,eth1]", "per-cpu": "true"}},
		{"bad value", "", "interface = x\npacket-count = five", nil, "",
			map[string]string{"error": "/config:2: -c five: must be a positive whole number (in xdpcap)"}},
		{"bad variable", "", "", map[string]string{"XDPCAP_COUNT": "five"}, "stats",
			map[string]string{"error": "XDPCAP_COUNT: -c five: must be a positive whole number (in xdpcap stats)"}},
		// A value applies to the commands whose flag takes it.
		{"a rate of the capture", "sample = auto\n", "", nil, "", map[string]string{"sample": "auto"}},
		{"several interfaces, in probe", machine, "", nil, "probe", map[string]string{"interface": ""}},
		{"several programs, in stats", "program = a,b\n", "", nil, "stats", map[string]string{"program": ""}},
		{"one program, in stats", "program = a\n", "", nil, "stats", map[string]string{"program": "a"}},
		{"counters", "count = true\nflows = 10\n", "", nil, "", map[string]string{"count": "true", "flows": "10"}},
		{"counters, in stats", "count = true\nflows = 10\n", "", nil, "stats", map[string]string{"count": "0"}},
		{"how many reports", "count = 1\n", "", nil, "", map[string]string{"count": "false"}},
		{"how many reports, in stats", "count = 1\n", "", nil, "stats", map[string]string{"count": "1"}},
		{"a file of counts", "json = /tmp/counts\n", "", nil, "", map[string]string{"json": "/tmp/counts"}},
		{"a file of counts, in read", "json = /tmp/counts\n", "", nil, "read x", map[string]string{"json": "false"}},
		{"what a capture prints", "stats = true\nprint = true\njson = true\nformat = pcap\n", "", nil, "",
			map[string]string{"stats": "true", "print": "true", "json": frame.StderrFile, "format": "pcap"}},
		{"what a capture prints, in read", "stats = true\nprint = true\njson = true\nformat = pcap\n", "", nil, "read x",
			map[string]string{"stats": "false", "print": "false", "json": "false", "format": ""}},
		{"for no command", "sample = often\n", "", nil, "",
			map[string]string{"error": "/xdpcap.conf:1: --sample often: must be a positive whole number (in xdpcap)"}},
		{"not about this command", "sample = often\n", "", nil, "stats", map[string]string{"interval": "1s"}},
		{"bad flag", "line-buffered = true\n", "", nil, "", map[string]string{"error": "/xdpcap.conf:1: no command has a flag --line-buffered"}},
		{"a short flag", "i = eth0\n", "", nil, "", map[string]string{"error": "/xdpcap.conf:1: i: write the flag's long name, without --"}},
		{"as on the command line", "--count = 1\n", "", nil, "", map[string]string{"error": "/xdpcap.conf:1: --count: write count, without --"}},
		{"another tool's", "immediate-mode = true\n", "", nil, "", map[string]string{"error": "no command has a flag --immediate-mode"}},
		{"bad line", "interface eth0\n", "", nil, "", map[string]string{"error": `/xdpcap.conf:1: "interface eth0" has no =: a line is FLAG = VALUE`}},
		// Under the name tcpdump a capture has both directions and writes pcap, unless it is told
		// otherwise.
		{"/usr/bin/tcpdump", "", "", nil, "-i none0", tcpdumps},
		{"/tmp/static-tcpdump", "", "", nil, "-i none0", tcpdumps}, // ksniff's
		{"tcpdump", "", "", nil, "-i none0 -Q in --format pcapng", map[string]string{"direction": "in", "format": "pcapng"}},
		{"tcpdump", "", "direction = out\n", nil, "-i none0", map[string]string{"direction": "out", "format": "pcap"}},
		{"tcpdump-4.99", "", "", nil, "-i none0", map[string]string{"direction": "in", "format": ""}},
		{"/opt/tcpdump/xdpcap", "", "", nil, "-i none0", map[string]string{"direction": "in", "format": ""}},
	} {
		t.Run(test.name+" "+test.args, func(t *testing.T) {
			set := settings{Files: setSettings(t, test.machine, test.user)}
			set.Files.Unset = calledAs(test.name)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			root := NewRoot()
			got := make(map[string]string)
			root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
				if err := set.apply(cmd, 0); err != nil {
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

// config prints the settings with their origins, and finds those that are impossible.
func TestConfig(t *testing.T) {
	run := func(files settingsFiles) (string, error) {
		var out bytes.Buffer
		root := newRoot(frame.NewProcess(os.Stdout, os.Stderr), files)
		root.SetOut(&out)
		root.SetArgs([]string{"config"})
		err := root.Execute()
		return out.String(), err
	}
	files := setSettings(t, "", "")
	out, err := run(files)
	if want := "nothing is set by XDPCAP_* or in " + strings.Join(files.Paths(), " or ") + "\n"; err != nil || out != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	files = setSettings(t, "interface = eth0\nquiet = true\nflows = 10\nsample = auto\n", "interface = \x1b[1m\n")
	t.Setenv("XDPCAP_SNAPSHOT_LENGTH", "128")
	paths := files.Paths()
	out, err = run(files)
	want := [][]string{
		{"FLAG", "VALUE", "FROM", "COMMANDS"},
		{"flows", "10", paths[0] + ":3", "count", "drops", "xdpcap"},
		{"interface", `\x1b[1m`, paths[1] + ":1", "count", "drops", "latency", "monitor", "probe", "stats", "top", "xdpcap"},
		{"quiet", "true", paths[0] + ":2", "count", "drops", "gather", "latency", "monitor", "read", "replay", "stats", "xdpcap"},
		{"sample", "auto", paths[0] + ":4", "xdpcap"},
		{"snapshot-length", "128", "XDPCAP_SNAPSHOT_LENGTH", "xdpcap"},
	}
	var got [][]string
	for line := range strings.Lines(out) {
		got = append(got, strings.Fields(line))
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	t.Setenv("XDPCAP_INTERVAL", "soon")
	if _, err := run(files); err == nil || !strings.HasPrefix(err.Error(), "XDPCAP_INTERVAL: --interval soon: must be a time") {
		t.Errorf("a value that a command does not take: %v", err)
	}
	t.Setenv(SettingsVariable, "/nosuch")
	if _, err := run(files); err == nil || err.Error() != "settings: open /nosuch: no such file or directory" {
		t.Errorf("XDPCAP_CONFIG with a file that is not there: %v", err)
	}
}

// The rows mark the flags that are dangerous in other hands, and the help of config lists the flags
// that grant rights.
func TestExceptionsFromSettings(t *testing.T) {
	t.Parallel()
	var grantRights, exposeData []string
	help := helpOf(t, "config", "--help")
	for name, settings := range settableFlags(NewRoot()) {
		if settings&frame.GrantsRights != 0 {
			grantRights = append(grantRights, name)
			if !strings.Contains(help, "--"+name) {
				t.Errorf("the help of config does not name --%s", name)
			}
		}
		if settings&frame.ExposesData != 0 {
			exposeData = append(exposeData, name)
		}
	}
	slices.Sort(grantRights)
	slices.Sort(exposeData)
	if diff := cmp.Diff([]string{"netns", "no-sandbox", "pod", "postrotate-command", "relinquish-privileges"}, grantRights); diff != "" {
		t.Errorf("only a file in /etc sets these: %s", diff)
	}
	if diff := cmp.Diff([]string{"json", "listen", "serve", "write"}, exposeData); diff != "" {
		t.Errorf("the environment of somebody else does not set these: %s", diff)
	}
}

// Every flag takes its default again after a setting that is not for its command.
func TestForget(t *testing.T) {
	t.Parallel()
	root := NewRoot()
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"x", "7", "7M", "true", "false", "exit", "out", "generic", "headers", "auto", "nano", "7s", "255.0.0.0"} {
				if f.Annotations[frame.GroupKey] != nil && c.Flags().Set(f.Name, value) == nil && f.Value.String() != f.DefValue {
					if frame.Forget(f); f.Changed || f.Value.String() != f.DefValue {
						t.Errorf("%s --%s %s: it is %s, the default is %s", c.Name(), f.Name, value, f.Value, f.DefValue)
					}
				}
			}
		})
	}
}

// If a setting has no effect on monitor, it sets its flag back to the default.
func TestForgetSettingsOfCounters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		command string
		names   []string
	}{
		{"monitor", counters.CountingFlags},
	} {
		cmd, _, err := NewRoot().Find([]string{test.command})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range test.names {
			f := cmd.Flags().Lookup(name)
			value := map[string]string{"bool": "true", "time": "7s", "name": "x", "string": "generic", "uint64": "7"}[f.Value.Type()]
			if err := cmd.Flags().Set(name, value); err != nil || f.Value.String() == f.DefValue {
				t.Fatalf("%s --%s: it is %s, %v", test.command, name, f.Value, err)
			}
			if err := cmd.Flags().SetAnnotation(name, frame.SettingKey, []string{"/etc/xdpcap.conf:1"}); err != nil {
				t.Fatal(err)
			}
			if frame.ForgetSettings(cmd.Flags(), name); f.Changed || f.Value.String() != f.DefValue {
				t.Errorf("%s --%s: it is %s, the default is %s", test.command, name, f.Value, f.DefValue)
			}
		}
	}
}

// The flags of the capture accept the values in the example of the service's settings.
func TestExampleSettings(t *testing.T) {
	text := testfile.Read(t, "packaging/xdpcap.conf.example")
	file := filepath.Join(t.TempDir(), "eth0.conf")
	t.Setenv(SettingsVariable, file)
	for _, text := range []string{text, regexp.MustCompile(`(?m)^#(\w\S+ = )`).ReplaceAllString(text, "$1")} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, _, err := (settingsFiles{}).Read(settableFlags(NewRoot())); err != nil || len(all) < 4 {
			t.Error(all, err)
		}
	}
}
