package commandline_test

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

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// withFileCapabilities copies xdpcap to a directory where every user can execute it, with
// capabilities.
func withFileCapabilities(t *testing.T, capabilities ...int) string {
	t.Helper()
	dir := systest.DirectoryFor(t, 0)
	path := filepath.Join(dir, "xdpcap")
	text, err := os.ReadFile(systest.XdpcapPath)
	testnet.Must(t, err)
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
		testnet.Must(t, err)
	}
	return path
}

// asSomebody runs a file with capabilities as a user without any, in a network namespace of its
// own, and with a time limit, because a command that should have been refused might not end.
func asSomebody(t *testing.T, path string, env []string, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testnet.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(systest.Somebody(t)), Gid: uint32(systest.Somebody(t))}}
	out = systest.RunInside(t, testnet.MustPair(t, testnet.PairOptions{}).Rx, cmd)
	return out, cmd.ProcessState.ExitCode()
}

// A binary with capabilities ignores the environment of a caller without them.
func TestSettingsOfCapableBinary(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	path := withFileCapabilities(t, unix.CAP_NET_ADMIN)
	file := filepath.Join(filepath.Dir(path), "settings")
	testnet.Must(t, os.WriteFile(file, []byte("interval = soon\n"), 0o644))
	out, status := asSomebody(t, path, []string{"XDPCAP_COUNT=x", systest.SettingsFileVariable + "=" + file}, "config")
	for _, variable := range []string{"XDPCAP_COUNT", systest.SettingsFileVariable} {
		if want := "xdpcap: " + variable + " is ignored, because xdpcap has capabilities that its caller lacks: give flags instead\n"; !strings.Contains(out, want) {
			t.Errorf("%s does not say %q", out, want)
		}
	}
	if status != 0 || strings.Contains(out, "soon") {
		t.Errorf("exit status %d: %s", status, out)
	}
}

// A user whose only rights are those of the binary can read packets, and change nothing on the
// system.
func TestCapableBinaryRefuses(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	path := withFileCapabilities(t, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_PERFMON)
	for flag, args := range map[string]string{
		"--sink":         "-i lo --sink --yes --account",
		"--action drop":  "stats -i lo --action drop --yes",
		"--action abort": "stats -i lo --action abort --yes",
		"-j adapter":     "-i lo -j adapter --account",
	} {
		out, status := asSomebody(t, path, []string{systest.SettingsFileVariable + "="}, strings.Fields(args)...)
		want := "xdpcap: " + flag + ": this binary has capabilities that its caller lacks, and lets users only look at packets: start it as root\n"
		if status != 1 || out != want {
			t.Errorf("%s: exit status %d, %q", args, status, out)
		}
	}
}
