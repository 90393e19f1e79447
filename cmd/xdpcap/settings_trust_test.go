package main

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Root does not obey what somebody else has written, and some flags are set by nobody but who types
// the command line or administers the machine.
func TestSettingsTrust(t *testing.T) {
	skipEmulated(t)
	testnet.RequireRoot(t)
	const user, others = 1000, 0o622
	for _, test := range []struct {
		name     string
		text     string
		machine  bool // the file is the machine's
		owner    int
		mode     os.FileMode
		named    bool   // by XDPCAP_CONFIG
		variable string // "" = none
		want     string // the value of --snapshot-length
		notice   string
		err      string
	}{
		{"own", "snapshot-length = 64", false, 0, 0o644, false, "", "64", "", ""},
		{"a user's", "snapshot-length = 64", false, user, 0o600, false, "", "", "which belongs to user id 1000: somebody else could write to it", ""},
		{"writable", "snapshot-length = 64", false, 0, others, false, "", "", "whose mode is 0622: somebody else could write to it", ""},
		{"the machine's, writable", "snapshot-length = 64", true, 0, others, false, "", "", "whose mode is 0622", ""},
		{"a user's, named", "snapshot-length = 64", false, user, 0o600, true, "", "", "", "which belongs to user id 1000: somebody else could write to it"},
		{"no-sandbox", "no-sandbox = true", false, 0, 0o600, false, "", "", "", ":1: --no-sandbox can be set on the command line and in a file in /etc alone"},
		{"-z", "postrotate-command = gzip", false, 0, 0o600, true, "", "", "", ":1: --postrotate-command can be set"},
		{"the machine's no-sandbox", "no-sandbox = true\nsnapshot-length = 64", true, 0, 0o600, false, "", "64", "", ""},
		{"variable", "", false, 0, 0o600, false, "XDPCAP_NETNS", "", "", "XDPCAP_NETNS: --netns can be set"},
		{"-Z variable", "", false, 0, 0o600, false, "XDPCAP_RELINQUISH_PRIVILEGES", "", "", "XDPCAP_RELINQUISH_PRIVILEGES: --relinquish-privileges can be set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := func() string { return settingsFiles()[1] }
			if test.machine {
				setSettings(t, test.text, "")
				file = func() string { return systemSettings }
			} else {
				setSettings(t, "", test.text+"\n")
			}
			if err := os.Chmod(file(), test.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(file(), test.owner, test.owner); err != nil {
				t.Fatal(err)
			}
			if test.named {
				t.Setenv(settingsFileVariable, file())
			}
			if test.variable != "" {
				t.Setenv(test.variable, "1")
			}
			all, notices, err := readSettings(settableFlags(newRoot()))
			got := ""
			for _, s := range all {
				if s.flag == "snapshot-length" {
					got = s.value
				}
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			if got != test.want || !strings.HasSuffix(said, test.err) && (test.err == "" || !strings.Contains(said, test.err)) || (said == "") != (test.err == "") {
				t.Errorf("%q, error %v", got, err)
			}
			if text := strings.Join(notices, "\n"); !strings.Contains(text, test.notice) || (text == "") != (test.notice == "") {
				t.Errorf("notices %q", notices)
			}
		})
	}
}

// withFileCapabilities copies xdpcap to where everybody can execute it, with capabilities.
func withFileCapabilities(t *testing.T, capabilities ...int) string {
	t.Helper()
	dir := directoryFor(t, 0)
	path := filepath.Join(dir, "xdpcap")
	text, err := os.ReadFile(xdpcapPath)
	if err != nil {
		t.Fatal(err)
	}
	set := uint64(0)
	for _, c := range capabilities {
		set |= 1 << c
	}
	const version2, effective = 0x02000000, 1
	var attribute []byte
	for _, word := range []uint32{version2 | effective, uint32(set), 0, uint32(set >> 32), 0} {
		attribute = binary.LittleEndian.AppendUint32(attribute, word)
	}
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.WriteFile(path, text, 0o755), unix.Setxattr(path, "security.capability", attribute, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// asSomebody runs a file with capabilities as a user that has none, in a network namespace of its
// own, and not for long: what should have been refused would work on.
func asSomebody(t *testing.T, path string, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testnet.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), beXdpcap+"=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(somebody), Gid: uint32(somebody)}}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := testnet.MustPair(t, testnet.PairOptions{}).Rx.Start(cmd); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	return out.String(), err
}

// A binary with capabilities obeys nothing that is in the environment of a caller who has none.
func TestSettingsOfCapableBinary(t *testing.T) {
	skipEmulated(t)
	testnet.RequireRoot(t)
	path := withFileCapabilities(t, unix.CAP_NET_ADMIN)
	file := filepath.Join(filepath.Dir(path), "settings")
	if err := os.WriteFile(file, []byte("interval = soon\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := asSomebody(t, path, []string{"XDPCAP_COUNT=x", settingsFileVariable + "=" + file}, "config")
	for _, variable := range []string{"XDPCAP_COUNT", settingsFileVariable} {
		if want := "xdpcap: " + variable + " is not obeyed, since xdpcap has capabilities that its caller has not: give flags instead\n"; !strings.Contains(out, want) {
			t.Errorf("%s does not say %q", out, want)
		}
	}
	if err != nil || strings.Contains(out, "soon") {
		t.Errorf("%v: %s", err, out)
	}
}

// Who has no rights but those of the binary looks at packets, and changes nothing.
func TestCapableBinaryRefuses(t *testing.T) {
	skipEmulated(t)
	testnet.RequireRoot(t)
	path := withFileCapabilities(t, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_PERFMON)
	for flag, args := range map[string]string{
		"--sink":         "-i lo --sink --yes --account",
		"--action drop":  "stats -i lo --action drop --yes",
		"--action abort": "stats -i lo --action abort --yes",
		"--drop 5":       "latency -i lo --builtin --drop 5 --yes",
		"-j adapter":     "-i lo -j adapter --account",
	} {
		out, err := asSomebody(t, path, []string{settingsFileVariable + "="}, strings.Fields(args)...)
		want := "xdpcap: " + flag + ": this binary has capabilities that its caller has not, and lets users look at packets alone: start it as root\n"
		if err == nil || out != want {
			t.Errorf("%s: %v, %q", args, err, out)
		}
	}
}
