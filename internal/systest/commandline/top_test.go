package commandline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// escapes are the control sequences of a terminal: cursor movements, and all others.
var escapes = regexp.MustCompile(`\x1b(\[([?0-9;]*)([a-zA-Z])|[()].|[=>78])`)

// screen is what the terminal shows after a text.
func screen(text string) string {
	const width, height = 200, 60
	blank := []rune(strings.Repeat(" ", width*height))
	cells, x, y := slices.Clone(blank), 0, 0
	for text != "" {
		if at := escapes.FindStringSubmatchIndex(text); at != nil && at[0] == 0 {
			switch sequence := at[6] > 0; {
			case sequence && text[at[6]:at[7]] == "H":
				x, y = 0, 0
				if n, _ := fmt.Sscanf(text[at[4]:at[5]], "%d;%d", &y, &x); n == 2 {
					x, y = x-1, y-1
				}
			case sequence && text[at[6]:at[7]] == "J": // erases all, or what follows
				from := min(y*width+x, len(cells))
				if text[at[4]:at[5]] == "2" {
					from = 0
				}
				copy(cells[from:], blank)
			}
			text = text[at[1]:]
			continue
		}
		char, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		switch {
		case char == '\r':
			x = 0
		case char == '\n':
			y++
		case y < height && x < width:
			cells[y*width+x] = char
			x++
		}
	}
	var b strings.Builder
	for row := range slices.Chunk(cells, width) {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}

// alternate is what the alternate screen shows, or showed at last.
func (term *terminal) alternate() string {
	_, text, _ := strings.Cut(term.String(), "\x1b[?1049h")
	text, _, _ = strings.Cut(text, "\x1b[?1049l")
	return screen(text)
}

// press types keys, and waits for what the terminal then shows.
func (term *terminal) press(t *testing.T, keys, want string) {
	t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
	term.waitFor(t, want)
}

// waitFor waits until the terminal shows something.
func (term *terminal) waitFor(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(testnet.Patience); !strings.Contains(term.alternate(), want); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is no %q:\n%s", want, term.alternate())
		}
	}
}

// resize changes the size of the window.
func (term *terminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	testnet.Must(t, unix.IoctlSetWinsize(int(term.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
}

// startTop runs top in a directory of its own. The returned function waits for its end, and checks
// that the terminal is as it was.
func startTop(t *testing.T, pair *testnet.Pair, args ...string) (term *terminal, dir string, wait func()) {
	t.Helper()
	dir, term = t.TempDir(), newTerminal(t)
	term.resize(t, 80, 24)
	modes := func() unix.Termios {
		got, err := unix.IoctlGetTermios(int(term.side.Fd()), unix.TCGETS)
		testnet.Must(t, err)
		return *got
	}
	before := modes()
	cmd := systest.Command(append([]string{"top"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(cmd.Env, "TERM=xterm", "LC_ALL=C.UTF-8")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.side, term.side, term.side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testnet.Must(t, pair.Rx.Start(cmd))
	t.Cleanup(func() { cmd.Process.Kill() })
	term.pid = cmd.Process.Pid
	return term, dir, func() {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %q", err, term)
		}
		if after := modes(); after != before {
			t.Errorf("the terminal was %+v, and is %+v", before, after)
		}
		term.side.Close()
		<-term.done
	}
}

// checkTopGaveUp expects that a process has the rights alone with which it can attach again.
func checkTopGaveUp(t *testing.T, pid int) {
	t.Helper()
	kept := uint64(0)
	for _, c := range []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN, unix.CAP_SYSLOG} {
		kept |= 1 << c
	}
	status := systest.Contents(t, fmt.Sprintf("/proc/%d/status", pid))
	for _, line := range []string{fmt.Sprintf("\nCapEff:\t%016x\n", kept), fmt.Sprintf("\nCapPrm:\t%016x\n", kept), "\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n"} {
		if !strings.Contains(status, line) {
			t.Errorf("its status has no %q: %s", line, status)
		}
	}
}

// checkNothingAttached expects that no program is at the interface any more.
func checkNothingAttached(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	systest.CheckDetached(t, pair)
	testnet.Must(t, pair.Rx.Do(func() error {
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			all, err := link.QueryPrograms(link.QueryOptions{Target: pair.RxIndex, Attach: at})
			if err == nil && len(all.Programs) > 0 {
				t.Errorf("%d programs are still at %v", len(all.Programs), at)
			}
		}
		return nil
	}))
}

// top shows flows as they come, takes keys, follows the size of its window, takes another filter
// and refuses a wrong one, shows the packets of a row and writes them to a file. At the end the
// terminal is as it was, has the totals once, and nothing is attached.
func TestTop(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	term, dir, wait := startTop(t, pair, "-i", "rx0", "-Q", "inout")
	term.waitFor(t, "? keys")
	checkTopGaveUp(t, term.pid)
	stop := systest.Trickle(t, pair)
	defer stop()
	term.waitFor(t, "192.0.2.1:9999")
	term.waitFor(t, "rx0, tc ingress; sent")
	for _, step := range []struct{ keys, want string }{
		{"r", "FAMILY"},
		{"s", "1024-1518"},
		{"v", "no XDP program runs here: "},
		{"l", "PROGRAM OF"},
		{"i", "COUNTED"},
		{"d", "STAGE"},
		{"f", "FROM"},
		{"?", "type in a filter"},
		{"x", "FROM"},
		{"o", "by packets/s"},
		{"p", "paused  ? keys"},
		{"p", "by packets/s                                                     ? keys"},
		{"/", "Enter: count what matches"},
		{"udq\r", "filter expression: syntax error"},
		{"/\x7fp or arp\r", "filter: udp or arp"},
	} {
		term.press(t, step.keys, step.want)
	}
	term.resize(t, 120, 40)
	term.waitFor(t, "PACKETS/S") // has room now
	term.waitFor(t, strings.Repeat("\n", 30)+"by packets/s  filter: udp or arp")
	term.press(t, "\r", "packets: udp 192.0.2.1:9999 to 192.0.2.2:9999 and back")
	term.waitFor(t, "UDP, length 158\n")
	term.press(t, "w", " packets written to xdpcap_")
	testnet.WaitFor(t, "packets in the file", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "*.pcapng"))
		return len(files) == 1 && systest.FileSize(files[0]) > 10_000
	})
	term.press(t, "\x1b", "TREND")
	term.waitFor(t, "FROM")
	stop()
	term.keys.WriteString("q")
	wait()
	text := term.String()
	_, after, left := strings.Cut(text, "\x1b[?1049l")
	if !left || strings.Count(after, "FAMILY") != 2 || strings.Count(after, "packets lost at rx0") != 1 ||
		!strings.Contains(after, "rx0, received, tcx") || !strings.Contains(after, "udp or arp, over") {
		t.Errorf("after the alternate screen: %q", after)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pcapng"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q: %v", files, err)
	}
	if records, _ := systest.ReadFile(t, files[0]); len(records) == 0 {
		t.Error("the file has no packet")
	}
	checkNothingAttached(t, pair)
}

// A signal and --duration end top like a key, also while packets are shown. Without colours there
// are none.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	stop := systest.Trickle(t, pair)
	defer stop()
	term, _, wait := startTop(t, pair, "-i", "rx0", "--color", "never")
	term.waitFor(t, "192.0.2.1:9999")
	term.press(t, "\r", "UDP, length 158\n")
	term.keys.WriteString("\x03") // Ctrl-C
	wait()
	if text := term.String(); strings.Contains(text, "\x1b[31m") || strings.Contains(text, "\x1b[32m") || !strings.Contains(text, "\x1b[7m") {
		t.Errorf("colours, or no selected row: %q", text)
	}
	term, _, wait = startTop(t, pair, "-i", "r*0", "--duration", "2500ms", "--color", "always")
	wait()
	if text := term.String(); !strings.Contains(text, "\x1b[32m") || !strings.Contains(text, "total  rx0") {
		t.Errorf("after --duration: %q", text)
	}
	checkNothingAttached(t, pair)
}

// What is no terminal gets the command that prints plain tables.
func TestTopNeedsTerminal(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ args, want string }{
		{"top -i rx0 udp port 53", "xdpcap: top draws on a terminal, and this is none: for plain tables: xdpcap count -i rx0 --sizes --flows 10 'udp port 53'; and of what is lost: xdpcap drops -i rx0\n"},
		{"top -i any", "xdpcap count -i any --sizes --flows 10; and of what is lost: xdpcap drops -i any\n"},
		{"top", "which interface? -i rx0, or -i any"},
		{"top -i rx0 --color red", "--color red: must be auto, always or never"},
		{"top -i rx[]x", `-i "rx[]x": a [ or a \ in it is not complete, as in [a-z]`},
	} {
		p := systest.Start(t, pair.Rx, os.Stdout, strings.Fields(test.args)...)
		if status, said := p.Wait(); status != 1 || !strings.Contains(said, test.want) {
			t.Errorf("%s: status %d: %s", test.args, status, said)
		}
	}
}

// Where a program runs, top traces it: it shows verdicts, also of flows and their packets, and run
// times. When the program has gone, it goes on without it.
func TestTopTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	program := testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	stop := systest.Trickle(t, pair)
	defer stop()
	term, _, wait := startTop(t, pair, "-i", "rx0")
	term.waitFor(t, "rx0, count_packets (")
	term.waitFor(t, "udp    drop")
	term.waitFor(t, "drop 100.0 %")
	term.press(t, "\r", "[DROP] IP 192.0.2.1.9999")
	term.press(t, "\x1b", "FROM")
	term.press(t, "v", "VERDICT")
	term.waitFor(t, "\ndrop  ")
	term.press(t, "\r", "packets: drop")
	term.waitFor(t, "[DROP] IP 192.0.2.1.9999")
	term.press(t, "\x1b", "\ndrop  ")
	term.press(t, "l", "PROGRAM OF")
	term.waitFor(t, "\nrx0         drop   ")
	term.press(t, "d", "\nXDP    drop    count_packets")
	testnet.Must(t, program.Close())
	term.press(t, "f", "rx0, tc ingress")
	term.keys.WriteString("q")
	wait()
	checkNothingAttached(t, pair)
}
