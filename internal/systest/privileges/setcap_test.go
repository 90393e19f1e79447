package privileges_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// installFor runs make install SETCAP=GROUP below a directory that every user may enter. It returns
// the binary.
func installFor(t *testing.T, group string) string {
	t.Helper()
	dest := systest.DirectoryFor(t, 0)
	testnet.Must(t, os.Chmod(dest, 0o755))
	systest.MakeTarget(t, "install", "PREFIX=/opt/x", "DESTDIR="+dest, "STAGE="+filepath.Join(t.TempDir(), "stage"), "SETCAP="+group)
	return dest + "/opt/x/bin/xdpcap"
}

// make install SETCAP=GROUP lets users of the group inspect packets; other users cannot execute the
// binary.
func TestSetcap(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	testnet.Require(t, "getcap")
	const group = "daemon" // Debian always has it
	binary := installFor(t, group)

	found, err := user.LookupGroup(group)
	testnet.Must(t, err)
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	testnet.Must(t, err)
	var info unix.Stat_t
	if err := unix.Stat(binary, &info); err != nil || info.Uid != 0 || uint64(info.Gid) != gid || info.Mode != unix.S_IFREG|0o750 {
		t.Errorf("owner %d, group %d, mode %o: %v", info.Uid, info.Gid, info.Mode, err)
	}
	out, err := exec.Command("getcap", "-n", binary).CombinedOutput()
	if diff := cmp.Diff(binary+" cap_net_admin,cap_perfmon,cap_bpf=ep\n", string(out)); diff != "" || err != nil {
		t.Error(diff, err)
	}

	pair := testnet.MustPair(t, testnet.PairOptions{})
	member := []uint32{uint32(gid)}
	t.Run("a user of the group", func(t *testing.T) {
		dir := systest.DirectoryFor(t, systest.Somebody(t))
		file, summary := dir+"/out.pcapng", dir+"/summary.json"
		p := systest.StartCommand(t, pair.Rx, nil, systest.As(t, binary, member, "-i", pair.RxName, "-w", file, "--json="+summary)).Listening()
		checkPowerless(t, p)
		testnet.Send(t, pair, testnet.UDPFrame(64, 0))
		p.Interrupt()
		if s := systest.Account(t, systest.Contents(t, summary)); s.Captured != 1 || s.Seen != 1 {
			t.Errorf("summary %+v", s)
		}
		if got := systest.OwnerOf(t, file); got != systest.Somebody(t) {
			t.Errorf("the file belongs to %d", got)
		}
		systest.CheckDetached(t, pair)
	})
	t.Run("another user", func(t *testing.T) {
		cmd := systest.As(t, binary, nil, "-i", pair.RxName)
		err := pair.Rx.Start(cmd)
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("error %v", err)
		}
		if err == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	const refused = ": this binary has capabilities that its caller lacks, and lets users only look at packets: start it as root"
	for _, test := range []struct{ args, want string }{
		{"--sink -w /dev/null", "--sink" + refused},
		{"-j adapter -w /dev/null", "-j adapter" + refused},
		{"stats --action drop", "--action drop" + refused},
		{"-Z nobody -w /dev/null", "-Z nobody: only root can become another user"},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := append(strings.Fields(test.args), "-i", pair.RxName)
			status, stderr := systest.StartCommand(t, pair.Rx, nil, systest.As(t, binary, member, args...)).Wait()
			systest.OneLine(t, status, stderr, test.want)
			systest.CheckDetached(t, pair)
		})
	}

	// With CAP_SYS_ADMIN, too, as for --netns and tracing.
	if out, err := exec.Command("setcap", "cap_bpf,cap_net_admin,cap_perfmon,cap_sys_admin+ep", binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path := fmt.Sprintf("/proc/%d/ns/net", systest.Sleeper(t, pair.Rx))
	for _, test := range []struct{ args, want string }{
		{"--netns " + path + " -i " + pair.RxName + " -w /tmp/x.pcap -C 1 -z /bin/true", "--netns and -z" + refused},
		{"--pod default/web -w /tmp/x.pcap -C 1 -z /bin/true", "--pod and -z" + refused},
		{"--netns " + path + " -i " + pair.RxName + " --serve :0", "--netns and --serve" + refused},
		{"--netns " + path + " -i " + pair.RxName + " -w /dev/null -w tcp://127.0.0.1:1", "--netns and -w tcp://" + refused},
		{"--netns " + path + " -i " + pair.RxName + " -w sflow://127.0.0.1", "--netns and -w sflow://" + refused},
		{"stats --pod default/web --listen 127.0.0.1:0", "--pod and --listen" + refused},
		{"replay --measure --program 1 --yes", "--program" + refused},
	} {
		t.Run(test.args[:9], func(t *testing.T) {
			status, stderr := systest.StartCommand(t, pair.Tx, nil, systest.As(t, binary, member, strings.Fields(test.args)...)).Wait()
			systest.OneLine(t, status, stderr, test.want)
		})
	}
}

// If the group does not exist, an error reports it before any file has capabilities.
func TestSetcapGroup(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	dest := t.TempDir()
	out, err := exec.Command("make", "-C", "../../..", "-o", "build", "install", "PREFIX=/opt/x", "DESTDIR="+dest,
		"STAGE="+filepath.Join(t.TempDir(), "stage"), "SETCAP=no-such-group").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "SETCAP=no-such-group: there is no such group: groupadd --system no-such-group") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := unix.Getxattr(dest+"/opt/x/bin/xdpcap", "security.capability", nil); !errors.Is(err, unix.ENODATA) {
		t.Errorf("the capabilities of the binary: %v", err)
	}
}
