package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Root does not obey what somebody else has written, and some flags are set by nobody but who types
// the command line or administers the machine.
func TestTrust(t *testing.T) {
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
		{"--pod variable", "", false, 0, 0o600, false, "XDPCAP_POD", "", "", "XDPCAP_POD: --pod can be set"},
		{"-w variable", "snapshot-length = 64", false, 0, 0o644, false, "XDPCAP_WRITE", "64", "", ""},
		{"-w variable, by sudo", "", false, 0, 0o600, false, "XDPCAP_WRITE", "", "", "XDPCAP_WRITE: --write can be set on the command line and in a file in /etc alone"},
		{"--serve variable, by sudo", "", false, 0, 0o600, false, "XDPCAP_SERVE", "", "", "XDPCAP_SERVE: --serve can be set"},
		{"-Z variable", "", false, 0, 0o600, false, "XDPCAP_RELINQUISH_PRIVILEGES", "", "", "XDPCAP_RELINQUISH_PRIVILEGES: --relinquish-privileges can be set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			files := settingsFiles{Machine: filepath.Join(dir, "xdpcap.conf")}
			t.Setenv("XDG_CONFIG_HOME", dir)
			t.Setenv(SettingsVariable, "")
			file := filepath.Join(dir, "xdpcap", "config")
			if test.machine {
				file = files.Machine
			}
			err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(test.text+"\n"), 0o600),
				os.Chmod(file, test.mode), os.Chown(file, test.owner, test.owner))
			if err != nil {
				t.Fatal(err)
			}
			if test.named {
				t.Setenv(SettingsVariable, file)
			}
			t.Setenv("SUDO_UID", "")
			if strings.HasSuffix(test.name, "by sudo") {
				t.Setenv("SUDO_UID", "1000")
			}
			if test.variable != "" {
				t.Setenv(test.variable, "1")
			}
			all, notices, err := files.Read(map[string]frame.Settings{
				"snapshot-length": 0, "no-sandbox": frame.GrantsRights, "postrotate-command": frame.GrantsRights, "netns": frame.GrantsRights, "pod": frame.GrantsRights,
				"relinquish-privileges": frame.GrantsRights, "write": frame.ExposesData, "serve": frame.ExposesData,
			})
			got := ""
			for _, s := range all {
				if s.Flag == "snapshot-length" {
					got = s.Value
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
