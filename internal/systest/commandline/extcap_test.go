package commandline_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// sentence matches a sentence of Wireshark's grammar: a word, and names with values in braces.
var sentence = regexp.MustCompile(`^(extcap|interface|dlt|arg|value) (\{[a-z]+=[^{}\n]*\})+$`)

// Wireshark gets a list of every interface, its link type and its settings, in its own grammar. The
// settings are flags of the capture; a default omits its flag.
func TestExtcapAnswers(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "rx0"})
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	checked := func(args ...string) string {
		out := systest.RunInside(t, pair.Rx, systest.Command(args...))
		for line := range strings.Lines(out) {
			if !sentence.MatchString(strings.TrimSuffix(line, "\n")) {
				t.Errorf("%v: Wireshark does not read %q", args, line)
			}
		}
		return out
	}
	interfaces := checked("--extcap-interfaces", "--extcap-version=4.0")
	for _, want := range []string{"extcap {version=", "interface {value=xdpcap-lo}{display=xdpcap: lo (XDP)}\n",
		"interface {value=xdpcap-rx0}{display=xdpcap: rx0 (XDP program " + string(testnet.Rewriting) + " (id " + systest.ProgramID(t, target) + "))}\n"} {
		if !strings.Contains(interfaces, want) {
			t.Errorf("%q is not in\n%s", want, interfaces)
		}
	}
	if got := checked("--extcap-version=4.0"); !strings.HasPrefix(got, "extcap {version=") || strings.Count(got, "\n") != 1 {
		t.Errorf("the version: %s", got)
	}
	if got := checked("--extcap-dlts", "--extcap-interface", "xdpcap-rx0"); got != "dlt {number=1}{name=EN10MB}{display=Ethernet}\n" {
		t.Errorf("link types: %s", got)
	}

	config := checked("--extcap-config", "--extcap-interface", "xdpcap-rx0")
	flags := cli.NewRoot().Flags()
	for _, m := range regexp.MustCompile(`(?m)^arg \{number=(\d+)\}\{call=--([a-z-]+)\}`).FindAllStringSubmatch(config, -1) {
		flag := flags.Lookup(m[2])
		if flag == nil {
			t.Errorf("the setting --%s is no flag", m[2])
			continue
		}
		for _, v := range regexp.MustCompile(`(?m)^value \{arg=`+m[1]+`\}\{value=([^}]*)\}.*\{default=(.*)\}$`).FindAllStringSubmatch(config, -1) {
			if (v[2] == "true") != (v[1] == "") {
				t.Errorf("--%s: the default is %q", m[2], v[1])
			}
			if v[1] != "" && flag.Value.Set(v[1]) != nil {
				t.Errorf("--%s does not take %q", m[2], v[1])
			}
		}
	}
	program := `value {arg=1}{value=` + systest.ProgramID(t, target) + `}{display=` + string(testnet.Rewriting)
	reloaded := checked("--extcap-config", "--extcap-interface", "xdpcap-rx0", "--extcap-reload-option", "--program", "--vlan-aware", "")
	if !strings.Contains(reloaded, program) || strings.Contains(reloaded, "arg {") {
		t.Errorf("the programs again: %s", reloaded)
	}
}

// Wireshark reads from standard output whether a filter is valid, but only if the exit status is 0.
func TestExtcapFilter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ filter, want string }{
		{"", ""},
		{"tcp port 443", ""},
		{"ip broadcast", ""},
		{"tcp port", "syntax error: the expression ends too early\n"},
		{"-x", `syntax error (at "x", byte 1): put a word like host, net or port before it` + "\n"},
	} {
		out, err := systest.Command("--extcap-capture-filter", test.filter, "--extcap-interface", "xdpcap-lo").Output()
		if err != nil || string(out) != test.want {
			t.Errorf("%q: %q, %v", test.filter, out, err)
		}
	}
}

// The flags are not in the help, and command lines that Wireshark would not use are errors.
func TestExtcapMistakes(t *testing.T) {
	t.Parallel()
	if help, err := systest.Command("--help").Output(); err != nil || bytes.Contains(help, []byte("extcap")) || bytes.Contains(help, []byte("--fifo")) {
		t.Errorf("the help: %v\n%s", err, help)
	}
	for _, test := range []struct{ args, want string }{
		{"--extcap-dlts", "xdpcap: --extcap-interface is missing: xdpcap --extcap-interfaces lists them\n"},
		{"--capture --extcap-interface xdpcap-lo", "xdpcap: --capture: --fifo is missing, the fifo that Wireshark reads packets from\n"},
		{"--extcap-interface xdpcap-lo", "xdpcap: --extcap-interface: nothing is asked about it: " +
			"add --extcap-dlts, --extcap-config, --extcap-capture-filter or --capture\n"},
		{"--extcap-config --extcap-interface xdpcap-none0", `xdpcap: interface "none0" does not exist; there are: `},
		{"--capture --extcap-interface xdpcap-lo --fifo /nonexistent/fifo", "xdpcap: --fifo: open /nonexistent/fifo: no such file or directory\n"},
	} {
		cmd := systest.Command(strings.Fields(test.args)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err == nil || !strings.HasPrefix(stderr.String(), test.want) || test.args != "--extcap-config --extcap-interface xdpcap-none0" && len(out) > 0 {
			t.Errorf("%s: %v: %q, %q", test.args, err, out, &stderr)
		}
	}
}

// A fifo is Wireshark's end of a capture.
type fifo struct {
	t    *testing.T
	path string
}

func newFifo(t *testing.T) fifo {
	t.Helper()
	f := fifo{t, filepath.Join(t.TempDir(), "fifo")}
	testnet.Must(t, unix.Mkfifo(f.path, 0o600))
	return f
}

func (f fifo) open() *os.File {
	f.t.Helper()
	r, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// waitForReader waits until a process reads from the FIFO. The reader gets no end of file before
// the returned file is closed.
func (f fifo) waitForReader() *os.File {
	f.t.Helper()
	var w *os.File
	testnet.WaitFor(f.t, "a reader of the fifo", func() (opened bool) {
		var err error
		if w, err = os.OpenFile(f.path, os.O_WRONLY|unix.O_NONBLOCK, 0); err != nil && !errors.Is(err, unix.ENXIO) {
			f.t.Fatal(err)
		}
		return err == nil
	})
	return w
}

// readUntil reads from the FIFO until a text has arrived, and returns all bytes.
func readUntil(t *testing.T, r *os.File, piece []byte) []byte {
	t.Helper()
	r.SetReadDeadline(time.Now().Add(testnet.Patience))
	all := make([]byte, 64<<10)
	for n := 0; !bytes.Contains(all[:n], piece); {
		more, err := r.Read(all[n:])
		if n += more; err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// waitAttached waits until a capture without messages has begun.
func waitAttached(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	testnet.WaitFor(t, "the program to be attached", func() bool { return systest.Attached(t, pair) != "" })
}

// checkEnd expects an end without an error, with no text on stderr and no program left attached.
func checkEnd(t *testing.T, pair *testnet.Pair, p *systest.Process) {
	t.Helper()
	if status, stderr := p.Wait(); status != 0 || stderr != "" {
		t.Errorf("exit status %d: %q", status, stderr)
	}
	systest.CheckDetached(t, pair)
}

// Wireshark ends a capture by closing the fifo, or with SIGTERM as in TestExtcapSettings.
func TestExtcapEnds(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	f := newFifo(t)
	p, r := systest.Start(t, pair.Rx, nil, "--capture", "--extcap-interface", "xdpcap-"+pair.RxName, "--fifo", f.path,
		"--extcap-capture-filter", "udp", "--sample", "1", "--vlan-aware", ""), f.open()
	waitAttached(t, pair)
	testnet.Send(t, pair, testnet.UDPFrame(100, 7), testnet.TxToRx().ARPRequest())
	readUntil(t, r, testnet.UDPFrame(100, 7))
	r.Close()
	checkEnd(t, pair, p)
}

// Settings for files, streams and interfaces do not apply to Wireshark's captures, because
// Wireshark names the interface and the output. Settings that select packets apply to all.
func TestExtcapSettings(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	settings := filepath.Join(dir, "settings")
	err := os.WriteFile(settings, []byte(strings.ReplaceAll(`interface = none0
hook = /nosuch
write = DIR/out.pcapng
format = json
print = true
json = DIR/account
account = true
listen = 192.0.2.1:1
serve = 192.0.2.1:1
tls-ca = DIR/nosuch
sflow-agent = 192.0.2.1
counter-interval = 1
file-size = 1
rotate-seconds = 1
file-count = 2
ring-buffer = files:2
autostop = files:1
max-bytes = 1M
min-free = 1M
atomic = true
print-files = true
ring = 1M
trigger = lost
post = 1
snapshot-length = 50
`, "DIR", dir)), 0o600)
	testnet.Must(t, err)
	f := newFifo(t)
	cmd := systest.Command("--capture", "--extcap-interface", "xdpcap-"+pair.RxName, "--fifo", f.path)
	cmd.Env = append(cmd.Env, systest.SettingsFileVariable+"="+settings)
	p, r := systest.StartCommand(t, pair.Rx, nil, cmd), f.open()
	defer r.Close()
	waitAttached(t, pair)
	testnet.Send(t, pair, testnet.UDPFrame(100, 7))
	if all := readUntil(t, r, testnet.UDPFrame(100, 7)[:50]); bytes.Contains(all, testnet.UDPFrame(100, 7)) {
		t.Error("the snapshot length that is set does not hold")
	}
	p.Cmd.Process.Signal(unix.SIGTERM)
	checkEnd(t, pair, p)
	if made, err := filepath.Glob(dir + "/*"); err != nil || len(made) != 1 {
		t.Errorf("it made %v, %v", made, err)
	}
}

// A wireshark is a user's home in which xdpcap is an extcap.
type wireshark struct {
	t    *testing.T
	home string
}

// newWireshark creates a user's home directory with a link to xdpcap in both directories that
// Wireshark searches for extcaps: .config for 4.0, and .local/lib for newer versions.
func newWireshark(t *testing.T) wireshark {
	t.Helper()
	testnet.Require(t, "tshark")
	w := wireshark{t, t.TempDir()}
	for _, dir := range []string{".config", ".local/lib"} {
		dir = filepath.Join(w.home, dir, "wireshark/extcap")
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.Symlink(systest.XdpcapPath, filepath.Join(dir, "xdpcap"))
		}
		testnet.Must(t, err)
	}
	return w
}

func (w wireshark) tshark(args ...string) *exec.Cmd {
	cmd := exec.Command("tshark", args...)
	cmd.Env = append(os.Environ(), "HOME="+w.home, "XDG_CONFIG_HOME=")
	return cmd
}

// tshark lists the interfaces, and captures exactly the sent packets. The settings that Wireshark
// keeps for an interface reach the capture: here the snapshot length, and a filter in addition to
// Wireshark's own.
func TestTsharkCaptures(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	w := newWireshark(t)
	list, err := systest.RunIn(t, pair.Rx, w.tshark("-D"))
	if want := "xdpcap-" + pair.RxName + " (xdpcap: " + pair.RxName + " (XDP))\n"; err != nil || !strings.Contains(list, want) {
		t.Fatalf("tshark -D: %v: %q is not in\n%s", err, want, list)
	}
	const frames = 200
	file := systest.TempFile(t)
	var out bytes.Buffer
	cmd := w.tshark("-i", "xdpcap-"+pair.RxName, "-f", "udp", "-w", file, "-c", strconv.Itoa(frames),
		"-o", "extcap.xdpcap_rx0.snapshotlength:64", "-o", "extcap.xdpcap_rx0.extcapcapturefilter:greater 150")
	cmd.Stderr = &out
	testnet.Must(t, pair.Rx.Start(cmd))
	waitAttached(t, pair)
	for i := range uint64(frames) { // tshark waits for all of them
		testnet.Send(t, pair, testnet.UDPFrame(100, i), testnet.TxToRx().ARPRequest(), testnet.UDPFrame(200, i))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if !strings.Contains(out.String(), strconv.Itoa(frames)+" packets captured") || strings.Contains(out.String(), "rror") {
		t.Errorf("tshark says %s", &out)
	}
	records, r := systest.ReadFile(t, file)
	for i, rec := range records {
		if !bytes.Equal(rec.Data, testnet.UDPFrame(200, uint64(i))[:64]) || rec.CI.Length != 200 {
			t.Fatalf("packet %d of %d bytes is\n%x", i, rec.CI.Length, rec.Data)
		}
	}
	if ifi, err := r.Interface(0); err != nil || len(records) != frames || ifi.Name != pair.RxName {
		t.Errorf("%d packets, of %q, %v", len(records), ifi.Name, err)
	}
	testnet.WaitFor(t, "the program to be detached", func() bool { return systest.Attached(t, pair) == "" })
}

// Without privileges, tshark prints xdpcap's message with the remedy.
func TestTsharkPrivileges(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	w := newWireshark(t)
	const nobody = 65534
	binary := filepath.Join(w.home, "xdpcap") // the tests' own binary is in a directory that others cannot read
	if out, err := exec.Command("cp", systest.XdpcapPath, binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dir := range []string{".config", ".local/lib"} {
		link := filepath.Join(w.home, dir, "wireshark/extcap/xdpcap")
		testnet.Must(t, errors.Join(os.Remove(link), os.Symlink(binary, link)))
	}
	for dir := w.home; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	cmd := w.tshark("-i", "xdpcap-"+pair.RxName, "-a", "duration:120", "-w", "/dev/null")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	os.Chmod(cmd.Env[len(cmd.Env)-1][len("TMPDIR="):], 0o777)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	testnet.Must(t, pair.Rx.Start(cmd))
	began := time.Now()
	cmd.Wait()
	for _, want := range []string{"missing privileges: CAP_BPF", "setcap cap_bpf,cap_net_admin", "sudo chgrp wireshark /",
		"; or capture as root and read from a pipe: sudo xdpcap -i " + pair.RxName + " -w - | wireshark -k -i -\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not in\n%s", want, &stderr)
		}
	}
	if time.Since(began) > 2*testnet.Patience {
		t.Error("tshark did not end with xdpcap's error")
	}
}

// Verdicts reach tshark unchanged, through dumpcap and the FIFO. Not all build machines can trace
// programs, and in emulated machines tshark cannot start an extcap, so the test starts both.
func TestExtcapVerdicts(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{RxName: "traced1"})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	want := make(map[string]string)
	for _, a := range systest.Answers {
		want[fmt.Sprint(a.Port)] = fmt.Sprint(a.Verdict)
	}
	f, w := newFifo(t), newWireshark(t)
	cmd := w.tshark("-i", f.path, "-c", strconv.Itoa(2*len(systest.Answers)), "-T", "fields", "-e", "udp.dstport", "-e", "frame.verdict.ebpf_xdp")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	testnet.Must(t, pair.Rx.Start(cmd))
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	// A machine under load needs longer to start tshark than xdpcap waits for a reader of the fifo.
	defer f.waitForReader().Close()
	p := systest.Start(t, pair.Rx, nil, "--capture", "--extcap-interface", "xdpcap-traced1", "--fifo", f.path,
		"--extcap-capture-filter", "udp", "--rx-capture", "exit")
	limit := time.After(testnet.Patience)
	for ended := false; !ended; { // a traced program cannot be detected from outside
		systest.SendRound(t, pair)
		select {
		case err := <-done:
			if ended = true; err != nil {
				t.Fatalf("%v: %s", err, &stderr)
			}
		case <-limit:
			cmd.Process.Kill()
			<-done
			t.Fatalf("tshark did not end: %s%s\nxdpcap says: %s", &out, &stderr, p.Stderr())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if status, stderr := p.Wait(); status != 0 || stderr != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		if port, verdict, _ := strings.Cut(line, "\t"); want[port] == "" || want[port] != verdict {
			t.Errorf("port %q has the verdict %q, want %q", port, verdict, want[port])
		}
	}
	if len(lines) != 2*len(systest.Answers) {
		t.Errorf("%d packets", len(lines))
	}
}

// The profile in contrib/ shows the XDP data of a packet in columns.
func TestWiresharkProfile(t *testing.T) {
	t.Parallel()
	w := newWireshark(t)
	profiles := filepath.Join(w.home, ".config/wireshark/profiles")
	err := os.MkdirAll(profiles, 0o755)
	if err == nil {
		err = os.CopyFS(filepath.Join(profiles, "xdpcap"), os.DirFS("../../../contrib/wireshark/xdpcap"))
	}
	testnet.Must(t, err)
	path := systest.TempFile(t)
	f, err := file.Open(path, file.Options{})
	testnet.Must(t, err)
	src := capture.Source{Name: "eth0", Hook: capture.Exit, Target: capture.Program{ID: 7, Name: "lb"}}
	packets := []capture.Packet{{Facts: &capture.Facts{Queue: 3, ID: 1 << 40, Verdict: capture.Pass}}, {Facts: &capture.Facts{Verdict: capture.Drop, ID: 5, Dropped: 12}}, {Facts: &capture.Facts{Verdict: capture.Drop, ID: 6}}, {Facts: &capture.Facts{Verdict: capture.Redirect, To: 7, ID: 7}}, {Source: 1, Facts: &capture.Facts{ID: 8, Reason: 3, Location: 9}}}
	accounts := capture.Accounts{{Seen: 16, Lost: 12, Captured: 4}, {Seen: 1, Captured: 1}}
	outlet := func(capture.Outlet) string { return "eth1" }
	err = f.Begin(capture.Description{
		Sources: []capture.Source{src, {Name: "eth0", Hook: capture.StackDrop}}, Options: capture.Options{SnapLen: 2000}, OutletName: outlet,
		ReasonName:   func(uint16, *capture.Facts) string { return "NO_SOCKET" },
		LocationName: func(capture.Location) string { return "__udp4_lib_rcv" },
	})
	for i := range packets {
		packets[i].Data = testnet.UDPFrame(100, uint64(i))
		packets[i].WireLen, packets[i].Time = 100, int64(i)*1e9
		err = errors.Join(err, f.Write(packets[i:i+1]))
	}
	_, failed := f.End(accounts)
	testnet.Must(t, errors.Join(err, failed))

	shown := func(args ...string) []string {
		cmd := w.tshark(append([]string{"-C", "xdpcap", "-nr", path}, args...)...)
		cmd.Env = append(cmd.Env, "COLORTERM=truecolor")
		lines, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.Split(strings.TrimSpace(string(lines)), "\n")
	}
	var lines []string
	for _, line := range shown() {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff([]string{
		"1 0.000000000 eth0:lb@fexit 3 XDP_PASS 1099511627776 192.0.2.1 → 192.0.2.2 UDP 100 9999 → 9999 Len=58",
		"2 1.000000000 eth0:lb@fexit 0 XDP_DROP 5 12 192.0.2.1 → 192.0.2.2 UDP 100 9999 → 9999 Len=58",
		"3 2.000000000 eth0:lb@fexit 0 XDP_DROP 6 192.0.2.1 → 192.0.2.2 UDP 100 9999 → 9999 Len=58",
		"4 3.000000000 eth0:lb@fexit 0 XDP_REDIRECT redirect to eth1 7 192.0.2.1 → 192.0.2.2 UDP 100 9999 → 9999 Len=58",
		"5 4.000000000 eth0@drop thrown away: NO_SOCKET in __udp4_lib_rcv 8 192.0.2.1 → 192.0.2.2 UDP 100 9999 → 9999 Len=58",
	}, lines); diff != "" {
		t.Error(diff)
	}
	rules := shown("--color", "-T", "fields", "-e", "frame.number", "-e", "frame.coloring_rule.name")
	if diff := cmp.Diff([]string{"1\t", "2\tXDP lost before", "3\tXDP drop", "4\tXDP redirect", "5\tThrown away by the stack"}, rules); diff != "" {
		t.Error(diff)
	}
}
