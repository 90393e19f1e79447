package surroundings_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A unitBench is a systemd that runs the installed unit, on the receiving side of a pair.
type unitBench struct {
	t    *testing.T
	pair *testnet.Pair
	pid  string // of systemd
	unit string
	conf string // its settings
}

// newUnitBench installs xdpcap with these settings, without the user that packages make, and starts
// a systemd.
func newUnitBench(t *testing.T, settings string) *unitBench {
	t.Helper()
	for _, tool := range []string{"systemctl", "unshare", "nsenter"} {
		testnet.Require(t, tool)
	}
	b := &unitBench{t: t, pair: testnet.MustPair(t, testnet.PairOptions{})}
	b.unit = "xdpcap@" + b.pair.RxName
	dir, stage := t.TempDir(), t.TempDir()
	testnet.Must(t, os.Mkdir(dir+"/root", 0o755))
	systest.MakeTarget(t, "install", "PREFIX=/usr", "DESTDIR="+dir+"/installed", "STAGE="+stage)
	b.conf = dir + "/installed/etc/xdpcap/" + b.pair.RxName + ".conf"
	b.configure(settings)
	for _, name := range []string{"passwd", "group"} {
		others := regexp.MustCompile(`(?m)^xdpcap:.*\n`).ReplaceAllString(systest.Contents(t, "/etc/"+name), "")
		testnet.Must(t, os.WriteFile(dir+"/installed/etc/"+name, []byte(others), 0o644))
	}
	cmd := exec.Command("sh", append([]string{"testdata/systemd.sh", dir}, ownCgroups(t)...)...)
	said, err := os.Create(filepath.Join(dir, "said"))
	testnet.Must(t, err)
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	testnet.Must(t, b.pair.Rx.Start(cmd))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.run("ls", "-l", "/var/lib/private/xdpcap"))
		}
		cmd.Process.Kill() // and with it all processes that systemd has started
		<-ended
		if t.Failed() {
			log, _ := os.ReadFile(dir + "/log")
			t.Logf("%s%s", systest.Contents(t, dir+"/said"), log)
		}
	})
	testnet.WaitFor(t, "systemd", func() bool {
		select {
		case err := <-ended:
			ended <- err // for the end of the test
			t.Fatalf("%v: %s", err, systest.Contents(t, dir+"/said"))
		default:
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		b.pid = strings.TrimSpace(string(children))
		name, _ := os.ReadFile("/proc/" + b.pid + "/comm")
		return string(name) == "systemd\n" && b.run("systemctl", "is-active", "basic.target") == "active\n"
	})
	return b
}

// configure changes the unit's settings.
func (b *unitBench) configure(settings string) {
	b.t.Helper()
	if err := os.WriteFile(b.conf, []byte(settings), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// show returns a property of the unit.
func (b *unitBench) show(property string) string {
	return strings.TrimSpace(b.run("systemctl", "show", "-P", property, b.unit))
}

// begun waits until the unit has created this many files, and written each header.
func (b *unitBench) begun(n int) {
	b.t.Helper()
	testnet.WaitFor(b.t, fmt.Sprint("file ", n, " that has begun"), func() bool {
		files := b.files()
		return len(files) == n && !slices.ContainsFunc(files, func(name string) bool { return systest.Contents(b.t, name) == "" })
	})
}

// ownCgroups creates a cgroup in each hierarchy that systemd uses. They are removed with all
// cgroups that systemd has created in them.
func ownCgroups(t *testing.T) (all []string) {
	t.Helper()
	roots := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat(roots[0] + "/cgroup.procs"); err != nil {
		roots = nil
		for _, hierarchy := range []string{"systemd", "unified", "memory", "pids"} {
			roots = append(roots, "/sys/fs/cgroup/"+hierarchy)
		}
	}
	for _, root := range roots {
		dir, err := os.MkdirTemp(root, "xdpcap")
		testnet.Must(t, err)
		all = append(all, dir)
		t.Cleanup(func() { testnet.WaitFor(t, "the end of "+dir, func() bool { return removeCgroup(dir) == nil }) })
	}
	return all
}

// removeCgroup removes a cgroup and all below it.
func removeCgroup(root string) (err error) {
	var all []string
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(all) {
		err = unix.Rmdir(dir)
	}
	return err
}

// command returns a command that runs beside systemd.
func (b *unitBench) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", b.pid, "-a", "-r", "-w"}, args...)...)
}

// run runs a command beside systemd and returns its output.
func (b *unitBench) run(args ...string) string {
	out, _ := b.command(args...).CombinedOutput()
	return string(out)
}

// user waits for the user xdpcap in a database of users, "files" or "systemd", and returns its id.
func (b *unitBench) user(database string) (uid int) {
	b.t.Helper()
	testnet.WaitFor(b.t, "the user xdpcap in "+database, func() bool {
		_, err := fmt.Sscanf(b.run("getent", "-s", database, "passwd", "xdpcap"), "xdpcap:x:%d:", &uid)
		return err == nil
	})
	return uid
}

// systemctl expects that a command succeeds without output.
func (b *unitBench) systemctl(args ...string) {
	b.t.Helper()
	if out := b.run(append([]string{"systemctl"}, args...)...); out != "" {
		b.t.Fatalf("systemctl %v: %s", args, out)
	}
}

// files returns the unit's files, the oldest first.
func (b *unitBench) files() []string {
	all, _ := filepath.Glob("/proc/" + b.pid + "/root/var/lib/private/xdpcap/out*.pcapng")
	return all
}

// listening waits until the unit captures in another process than the one with this id, and returns
// the new id.
func (b *unitBench) listening(before uint32) (id uint32) {
	b.t.Helper()
	testnet.WaitFor(b.t, b.unit+" to capture", func() bool {
		err := b.pair.Rx.Do(func() error {
			ifi, err := xdp.InterfaceByName(b.pair.RxName)
			if err == nil && len(ifi.Programs) > 0 {
				id = ifi.Programs[0].ID
			}
			return err
		})
		return err == nil && id != 0 && id != before
	})
	return id
}

// The installed unit captures under a real systemd, as a user of its own without any capability and
// with its system calls filtered. A restart loses no packets. After a crash it starts again and
// overwrites no file.
func TestUnitRuns(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	b := newUnitBench(t, "write = /var/lib/xdpcap/out.pcapng\nring-buffer = filesize:100000\nring-buffer = files:50\n"+
		"transport = ring\nlisten = 127.0.0.1:9432\n")
	const packets = 10
	send := func() {
		for n := range uint64(packets) {
			testnet.Send(t, b.pair, testnet.UDPFrame(100, n))
		}
	}
	b.systemctl("start", b.unit)
	first := b.listening(0)
	pid := b.show("MainPID")
	testnet.WaitFor(t, "a socket for the metrics", func() bool {
		return strings.Contains(b.run("sh", "-c", "cat /proc/"+pid+"/net/tcp"), "0100007F:24D8 ") // 127.0.0.1:9432
	})
	if text := systest.Scrape(t, b.pair, "http://127.0.0.1:9432/metrics"); !strings.Contains(text, "xdpcap_seen_packets_total") {
		t.Errorf("the metrics: %s", text)
	}
	rights := strings.Fields(b.run("sh", "-c", "grep -hE '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/"+pid+"/task/*/status | sort -u"))
	if want := "CapBnd: 000000c000001000 CapEff: " + systest.NoCapability + " NoNewPrivs: 1 Seccomp: 2"; strings.Join(rights, " ") != want {
		t.Errorf("%q, want %s", rights, want)
	}
	send()
	b.systemctl("restart", b.unit)
	second := b.listening(first)
	b.begun(2)
	b.systemctl("kill", "--signal=KILL", b.unit)
	b.listening(second)
	if restarts := b.show("NRestarts"); restarts != "1" {
		t.Errorf("systemd has started it again %s times", restarts)
	}
	send()
	b.systemctl("stop", b.unit)
	systest.CheckDetached(t, b.pair)

	files, got := b.files(), 0
	for _, file := range files {
		got += len(systest.ReadTraced(t, file))
		if systest.OwnerOf(t, file) == 0 {
			t.Errorf("%s belongs to root", file)
		}
	}
	if len(files) != 3 || got != 2*packets {
		t.Errorf("%d packets in %q, want %d in 3 files", got, files, 2*packets)
	}

	// It also begins to capture packets that the network stack drops, although systemd hides the
	// kernel's list of functions from it.
	b.configure("write = /var/lib/xdpcap/out-of-stack.pcapng\ndrops = true\n")
	b.systemctl("start", b.unit)
	b.begun(4)
	b.systemctl("stop", b.unit)
	if restarts := b.show("NRestarts"); restarts != "0" || len(b.files()) != 4 {
		t.Errorf("systemd has started it again %s times, and it left the files %q", restarts, b.files())
	}
}

// The unit continues the ring of one that ran as root, first as a dynamic user. A package that is
// installed while it runs creates the user xdpcap, who owns all these files after the next start.
func TestUnitUser(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	b := newUnitBench(t, "write = /var/lib/xdpcap/out.pcapng\nring-buffer = filesize:100000\nring-buffer = files:4\ntransport = ring\n")
	if out := b.run("sh", "-c", "install -d -m 0700 /var/lib/xdpcap && umask 077 && echo kept >/var/lib/xdpcap/out_00007_20261101000000.pcapng"); out != "" {
		t.Fatal(out)
	}
	var program uint32
	// check expects that the unit runs as a user who owns that many files.
	check := func(uid, files int) {
		t.Helper()
		program = b.listening(program)
		testnet.WaitFor(t, "a new file", func() bool { return len(b.files()) == files })
		pid := b.show("MainPID")
		for _, name := range append(b.files(), filepath.Dir(b.files()[0]), "/proc/"+b.pid+"/root/proc/"+pid) {
			if owner := systest.OwnerOf(t, name); owner != uid {
				t.Errorf("%s belongs to %d, want %d", name, owner, uid)
			}
		}
	}
	b.systemctl("start", b.unit)
	dynamic := b.user("systemd")
	check(dynamic, 2)

	script, err := os.Open("../../../packaging/postinstall.sh")
	testnet.Must(t, err)
	defer script.Close()
	install := b.command("sh", "-s")
	install.Stdin = script
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("postinstall.sh: %v: %s", err, out)
	}
	static := b.user("files")
	if static == dynamic {
		t.Errorf("the user xdpcap has the number of the dynamic one, %d", static)
	}
	b.systemctl("restart", b.unit)
	check(static, 3)
	b.systemctl("restart", b.unit)
	check(static, 4)
	first := b.files()[0]
	if got := systest.Contents(t, first); !strings.HasSuffix(first, "/out_00007_20261101000000.pcapng") || got != "kept\n" {
		t.Errorf("%s: %q", first, got)
	}
	b.systemctl("restart", b.unit)
	check(static, 4)
	if next := b.files()[0]; next == first {
		t.Errorf("%s is in the way of a new file", first)
	}
	b.systemctl("stop", b.unit)
	systest.CheckDetached(t, b.pair)
}
