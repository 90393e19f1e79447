package privileges_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A binary with the capabilities for the names of pods never discloses a file that the caller may
// not read, with any flag that names a file, and still reads the names of pods.
func TestSetcapFiles(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	for _, tool := range []string{"setcap", "setpriv", "unshare"} {
		testnet.Require(t, tool)
	}
	const group = "daemon"
	binary := installFor(t, group)
	if out, err := exec.Command("setcap", "cap_bpf,cap_net_admin,cap_perfmon,cap_sys_admin,cap_dac_read_search,cap_dac_override+ep", binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, err := user.LookupGroup(group)
	testnet.Must(t, err)
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	testnet.Must(t, err)
	secrets := systest.DirectoryFor(t, 0)
	for name, text := range map[string]string{
		"filter": "udp port 53", "program": "1\n6 0 0 1\n", "key": strings.Repeat("k", 32), "file": string(testfile.Numbered(3, 1, 1, "eth0")),
	} {
		testnet.Must(t, os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600))
	}
	for _, test := range []struct{ args, want string }{
		{"-d -F DIR/filter", "permission denied"},
		{"-d --filter-file DIR/program", "permission denied"},
		{"read DIR/file", "permission denied"},
		{"-r DIR/file", "permission denied"},
		{"read /dev/null DIR/file", "DIR/file is neither a file nor a filter"}, // discloses that it exists
		{"read --anonymize DIR/key /dev/null", "permission denied"},
		{"read --tls-ca DIR/file tcp://127.0.0.1:1", "permission denied"},
		{"read -w DIR/new /dev/null", "permission denied"},
		{"read -w DIR/file --no-sandbox /dev/null", "permission denied"},
		{"--json=DIR/new -i no-such", "permission denied"},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(test.args, "DIR", secrets))
			out, err := systest.As(t, binary, []uint32{uint32(gid)}, args...).CombinedOutput()
			if want := strings.ReplaceAll(test.want, "DIR", secrets); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if names, err := os.ReadDir(secrets); len(names) != 4 {
		t.Errorf("%v, %v", names, err)
	}

	root := t.TempDir()
	testnet.Containerd(t, root, "run/containerd", testnet.Pod{Namespace: "default", Name: "web-1"})
	testnet.Must(t, os.Chmod(filepath.Join(root, "run/containerd"), 0o700))
	out, err := exec.Command("unshare", "-m", "sh", "-c",
		fmt.Sprintf(`mount --bind "$1" /run && exec setpriv --reuid 12345 --regid 12345 --groups %d "$2" --pod default/web-2`, gid),
		"sh", filepath.Join(root, "run"), binary).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no pod of this name runs on this host: did you mean default/web-1?") {
		t.Errorf("%v: %s", err, out)
	}
}
