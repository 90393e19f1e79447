package surroundings_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

func filesBelow(t *testing.T, root string) (files []string) {
	t.Helper()
	testnet.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (!d.IsDir() || d.Name() == "xdpcap") {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	}))
	return files
}

// make install places all files, and make uninstall removes only these.
func TestInstall(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	dest := t.TempDir()
	other := filepath.Join(dest, "opt/x/bin/other")
	testnet.Must(t, os.MkdirAll(filepath.Dir(other), 0o755))
	testnet.Must(t, os.WriteFile(other, nil, 0o644))
	root, err := filepath.Abs("../../..")
	testnet.Must(t, err)
	relative, err := filepath.Rel(root, dest)
	testnet.Must(t, err)
	where := []string{"PREFIX=/opt/x", "DESTDIR=" + relative, "STAGE=" + filepath.Join(t.TempDir(), "stage")}
	systest.MakeTarget(t, "install", where...)
	files := filesBelow(t, dest)
	for _, want := range []string{
		"/opt/x/bin/xdpcap",
		"/opt/x/lib/systemd/system/xdpcap@.service",
		"/opt/x/lib/sysusers.d/xdpcap.conf",
		"/opt/x/share/bash-completion/completions/xdpcap",
		"/opt/x/share/doc/xdpcap/CHANGELOG.md",
		"/opt/x/share/doc/xdpcap/examples/eth0.conf",
		"/opt/x/share/doc/xdpcap/examples/grafana-xdpcap.json",
		"/opt/x/share/doc/xdpcap/examples/prometheus-xdpcap.rules.yml",
		"/opt/x/share/doc/xdpcap/release-signers",
		"/opt/x/share/man/man7/xdpcap-filter.7.gz",
		"/opt/x/share/man/man8/xdpcap.8.gz",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("no %s in %v", want, files)
		}
	}
	for _, page := range append(systest.Pages(t), systest.Internals(t)...) {
		for _, dead := range systest.DeadLinks(t, dest+"/opt/x/share/doc/xdpcap", page) {
			t.Errorf("%s as installed: the link to %s leads nowhere", page, dead)
		}
	}
	if links, err := filepath.Glob(dest + "/usr/lib/*/wireshark/extcap/xdpcap"); err != nil || len(links) != 1 {
		t.Errorf("extcap: %v, %v", links, err)
	} else if path, err := filepath.EvalSymlinks(links[0]); err != nil || path != filepath.Join(dest, "opt/x/bin/xdpcap") {
		t.Error(path, err)
	}
	const nothing = "nothing of xdpcap is installed"
	if out := systest.MakeTarget(t, "uninstall", where...); strings.Contains(out, nothing) {
		t.Error(out)
	}
	if diff := cmp.Diff([]string{"/opt/x/bin/other"}, filesBelow(t, dest)); diff != "" {
		t.Error(diff)
	}
	if out := systest.MakeTarget(t, "uninstall", where...); !strings.Contains(out, nothing+" in "+relative+"/opt/x") {
		t.Error(out)
	}
}

// systemd parses the unit, and finds few rights that an attacker could use in it.
func TestUnit(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	testnet.Require(t, "systemd-analyze")
	// systemd checks that the binary exists at the unit's path.
	stage, prefix := filepath.Join(t.TempDir(), "stage"), t.TempDir()
	systest.MakeTarget(t, "stage", "PREFIX="+prefix, "STAGE="+stage)
	instance := filepath.Join(t.TempDir(), "xdpcap@eth0.service")
	for link, to := range map[string]string{
		prefix + "/bin": stage + prefix + "/bin",
		instance:        stage + prefix + "/lib/systemd/system/xdpcap@.service",
	} {
		testnet.Must(t, os.Symlink(to, link))
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", instance).CombinedOutput(); err != nil || strings.Contains(string(out), "xdpcap@") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if unit := testfile.Read(t, "packaging/xdpcap@.service"); !strings.Contains(unit, "-i %i --no-overwrite\n") {
		t.Error("the unit restarts by itself, and may write over what it has written")
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--no-pager", instance).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	found := regexp.MustCompile(`exposure level for \S+: ([\d.]+)`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("%s", out)
	}
	if level, err := strconv.ParseFloat(string(found[1]), 64); err != nil || level > 1.5 {
		t.Errorf("exposed by %s of 10, 1.5 at the most\n%s", found[1], out)
	}
	// systemd-analyze does not check these lines, or gives them so little weight that their absence
	// would not change its result.
	unit := systest.Contents(t, instance)
	for _, line := range []string{
		"MemoryMax=25%", "TasksMax=2048", "LimitCORE=0", "LimitMEMLOCK=infinity", "User=xdpcap", "DynamicUser=yes", "Restart=on-failure", "StartLimitIntervalSec=0", "TimeoutStopSec=5min",
		"AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_PERFMON", "StateDirectory=xdpcap", "StateDirectoryMode=0750", "UMask=0077",
		"IPAddressAllow=localhost", "SystemCallErrorNumber=EPERM", "LockPersonality=yes", "MemoryDenyWriteExecute=yes", "KeyringMode=private", "ProtectHostname=yes",
		"Environment=XDPCAP_CONFIG=/etc/xdpcap/%i.conf",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit does not have %s", line)
		}
	}
}
