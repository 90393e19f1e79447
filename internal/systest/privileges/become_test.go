package privileges_test

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// anybody stands for the user that root becomes without -Z and sudo.
const anybody = -2

// idOf returns the id of a user.
func idOf(uid int) int {
	if uid != anybody {
		return uid
	}
	if found, err := user.Lookup("xdpcap"); err == nil {
		uid, _ = strconv.Atoi(found.Uid)
		return uid
	}
	return systest.Nobody
}

// isUser expects that all threads of a process are this user's, by all ids of it.
func isUser(t *testing.T, p *systest.Process, uid int) {
	t.Helper()
	if got := rights(t, p, "Uid"); !slices.Equal(got, []string{fmt.Sprintf("Uid: %[1]d %[1]d %[1]d %[1]d", idOf(uid))}) {
		t.Errorf("it is %q, want %d", got, idOf(uid))
	}
}

// Root becomes another user, who owns the created files: the user of -Z, or the caller of sudo if
// that user may write in the directory. Otherwise it becomes a user with fewer rights, and the
// files stay root's.
func TestBecomeUser(t *testing.T) {
	t.Parallel()
	sudo := []string{"SUDO_UID=" + strconv.Itoa(systest.Nobody), "SUDO_GID=" + strconv.Itoa(systest.Nobody)}
	for _, test := range []struct {
		name  string
		env   []string
		args  []string
		owner int // of the directory
		want  int // the user
		files int // owner of the files
	}{
		{"root", nil, nil, 0, anybody, 0},
		{"sudo", sudo, nil, systest.Nobody, systest.Nobody, systest.Nobody},
		{"doas", []string{"DOAS_USER=nobody"}, nil, systest.Nobody, systest.Nobody, systest.Nobody},
		{"pkexec", []string{"PKEXEC_UID=" + strconv.Itoa(systest.Nobody)}, nil, systest.Nobody, systest.Nobody, systest.Nobody},
		{"sudo into root's directory", sudo, nil, 0, anybody, 0},
		{"sudo of root", []string{"SUDO_UID=0", "SUDO_GID=0"}, nil, systest.Nobody, anybody, 0},
		{"-Z", nil, []string{"-Z", "nobody"}, 0, systest.Nobody, systest.Nobody},
		{"-Z root", sudo, []string{"-Z", "root"}, systest.Nobody, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := systest.DirectoryFor(t, test.owner)
			file, summary := dir+"/out.pcapng", dir+"/summary.json"
			cmd := systest.Command(append(test.args, "-i", pair.RxName, "-w", file, "--json="+summary)...)
			cmd.Env = append(cmd.Env, test.env...)
			p := systest.StartCommand(t, pair.Rx, nil, cmd).Listening()
			checkPowerless(t, p)
			isUser(t, p, test.want)
			if got := rights(t, p, "CapBnd"); !slices.Equal(got, []string{"CapBnd: " + systest.NoCapability}) {
				t.Error(got)
			}
			testnet.Send(t, pair, testnet.UDPFrame(64, 0))
			p.Interrupt()
			if s := systest.Account(t, systest.Contents(t, summary)); s.Captured != 1 {
				t.Errorf("summary %+v", s)
			}
			for _, made := range []string{file, summary} {
				if got := systest.OwnerOf(t, made); got != test.files {
					t.Errorf("%s belongs to %d, want %d", made, got, test.files)
				}
			}
			systest.CheckDetached(t, pair)
		})
	}
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		pair := testnet.MustPair(t, testnet.PairOptions{})
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "-Z", "nobody")
		p.Cmd.Process.Kill()
		<-p.Done
		testnet.WaitFor(t, "the kernel to detach", func() bool { return systest.Attached(t, pair) == "" })
	})
	t.Run("read", func(t *testing.T) {
		t.Parallel()
		for want, caller := range map[int][]string{anybody: nil, systest.Nobody: sudo} {
			dir := systest.DirectoryFor(t, systest.Nobody)
			cmd := systest.Command("read", "-", "-w", dir+"/out")
			cmd.Env = append(cmd.Env, caller...)
			input, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			testnet.Must(t, err)
			testnet.WaitFor(t, "all threads to be in the sandbox", func() bool { return filtered(cmd.Process.Pid) })
			isUser(t, &systest.Process{T: t, Cmd: cmd}, want)
			io.WriteString(input, systest.Contents(t, systest.WriteSample(t, systest.PlainSource).Path))
			input.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if owner, files := systest.OwnerOf(t, dir+"/out"), map[bool]int{true: 0, false: systest.Nobody}[caller == nil]; owner != files {
				t.Errorf("the file belongs to %d, want %d", owner, files)
			}
		}
	})
	t.Run("printing", func(t *testing.T) {
		t.Parallel()
		pair := testnet.MustPair(t, testnet.PairOptions{})
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-Z", "nobody", "-v")
		checkPowerless(t, p)
		if said := p.Interrupt(); !strings.Contains(said, "xdpcap: privileges: user nobody, no capabilities, may open files for writing nowhere, for reading in /proc, /sys alone; system calls are filtered\n") {
			t.Error(said)
		}
	})
}
