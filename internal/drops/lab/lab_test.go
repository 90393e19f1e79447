// Package lab brings about causes of loss, each in namespaces of its own, and checks what is told
// of them: the reason, the function, the stage, the number of packets, what to do, and that the
// kernel's own counters agree.
package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testdoc"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A cause is a way to lose packets.
type cause struct {
	name string

	// do brings it about, and returns how many packets are lost. Counting begins before it sends
	// the first packet.
	do func(*lab) uint64

	// found is the stage, the reason and the function of the loss: several, separated by |, where
	// kernels differ. The stages harmless and duplicate are in no total.
	found string

	advice  string // a part of the line; "" for what is harmless
	culprit string // a part of the line, "" = none is known
	device  string // where it is not the interface that is asked about
	of      string // the interface that is asked about: rx0 if "", every if "-"
	left    string // the counter that rises, though nothing reports the packets
	needs   string // the reason that a kernel must have: else it looks like something else
	v6      bool
	filter  string // of whose packets alone the kernel forgets the namespace: else those of others count, too
}

var causes = [][]cause{ofIP, ofIPv6, ofRoutes, ofFirewall, ofSockets, ofTCP, ofXDP, ofDevices, ofBridges, ofTunnels, ofQueues, harmless}

// each is how many packets are sent for a cause.
const each = 36

// Each cause is told as it is, on every kernel.
func TestCauses(t *testing.T) {
	t.Parallel()
	reasons, err := lost.KernelReasons(xdp.KernelTypes())
	testnet.Must(t, err)
	names := make(map[string]bool)
	for _, c := range slices.Concat(causes...) {
		if names[c.name] {
			t.Errorf("two causes are called %q", c.name)
		}
		names[c.name] = true
		if c.needs != "" && !slices.Contains(reasons.Names(), c.needs) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.bringAbout(t)
		})
	}
}

// bringAbout checks what is told of a cause. Some kernels run no program for what a timer drops
// while certain processes are current, such as process 1, and count no miss: that does not repeat
// itself.
func (c *cause) bringAbout(t *testing.T) {
	t.Helper()
	const attempts = 4
	for attempt := 1; !newLab(t, c).check(attempt == attempts); attempt++ {
	}
}

// The page for users has the reason of each cause; where that is not specified, the function. Of
// several, it has one.
func TestDocumented(t *testing.T) {
	t.Parallel()
	page := testdoc.Read(t, "docs/drops.md")
	for _, c := range slices.Concat(causes...) {
		if strings.HasPrefix(c.found, "harmless") || c.found == "" {
			continue
		}
		if !slices.ContainsFunc(strings.Split(c.found, "|"), func(found string) bool {
			_, reason, _ := strings.Cut(found, " ")
			if !strings.Contains(reason, ": ") { // of a redirect
				reason, _, _ = strings.Cut(reason, " ")
			}
			reason = strings.Trim(reason, "* ")
			return reason != "NOT_SPECIFIED" && reason != "" && strings.Contains(page, "`"+reason)
		}) && !strings.Contains(c.found, "NOT_SPECIFIED") {
			t.Errorf("%s: docs/drops.md does not have %s", c.name, c.found)
		}
	}
}

// A lab is a pair whose receiving side loses packets.
type lab struct {
	*testing.T
	*testnet.Pair
	sender *testnet.Sender
	cause  *cause
	begin  func() // counting, if it has not begun
	meter  *drops.Meter
}

func newLab(t *testing.T, c *cause) *lab {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true, IPv6: c.v6})
	l := &lab{T: t, Pair: pair, sender: testnet.MustSender(t, pair), cause: c}
	l.begin = sync.OnceFunc(func() {
		l.must(l.Rx.Do(func() (err error) {
			o := drops.Options{Interface: l.RxName, Check: true}
			if c.of != "" {
				o.Interface = strings.TrimPrefix(c.of, "-")
			}
			if c.filter != "" {
				if o.Filter, err = filter.Compile(c.filter, filter.Options{}); err != nil {
					return err
				}
			}
			l.meter, err = drops.Open(o)
			return err
		}))
		l.Cleanup(func() { l.meter.Close() })
	})
	testnet.MustKnow(t, l.Tx, l.TxIndex, testnet.RxEndpoint)
	testnet.MustKnow(t, l.Rx, l.RxIndex, testnet.TxEndpoint)
	return l
}

// must ends the test if there is an error. It skips it on a machine whose kernel lacks something;
// those of `make test-kernels` have all.
func (l *lab) must(err error) {
	l.Helper()
	if errors.Is(err, unix.EOPNOTSUPP) && !testnet.Emulated() {
		l.Skipf("this kernel cannot: %v", err)
	}
	testnet.Must(l.T, err)
}

// set sets a variable below /proc/sys/net on the receiving side.
func (l *lab) set(variable, value string) {
	l.Helper()
	l.must(l.Rx.Do(func() error { return os.WriteFile("/proc/sys/net/"+variable, []byte(value), 0) }))
}

// send sends frames to the receiving side, and returns how many.
func (l *lab) send(times int, frames ...[]byte) (sent uint64) {
	l.Helper()
	l.begin()
	for range times {
		for _, f := range frames {
			l.must(l.sender.Send(f))
			sent++
		}
	}
	testnet.WaitHandled(l)
	return sent
}

func (l *lab) read() (c drops.Counts) {
	l.Helper()
	testnet.WaitHandled(l)
	l.must(l.Rx.Do(func() (err error) {
		c, err = l.meter.Read()
		return err
	}))
	return c
}

// A row is what is told of a loss.
type row struct {
	drops.Loss
	packets uint64
}

// rows returns what is told of this lab: without losses in other namespaces, nor those of other
// processes whose namespace the kernel has forgotten, or is not told, as at XDP.
func (l *lab) rows(c drops.Counts) (all []row) {
	for stage, losses := range map[drops.Stage]map[drops.Loss]drops.Tally{"": c.Losses, "harmless": c.Harmless, "duplicate": c.Duplicates, "unclear": c.Unclear} {
		for loss, tally := range losses {
			if l.cause.of == "-" && (loss.Netns != 0 || (loss.Device == "" || loss.Stage == drops.XDP) && !l.isWanted(loss)) {
				continue
			}
			if stage != "" {
				loss.Stage = stage
			}
			all = append(all, row{loss, tally.Packets})
		}
	}
	return all
}

// isWanted tells whether a row is that of the cause.
func (l *lab) isWanted(loss drops.Loss) bool {
	return slices.ContainsFunc(strings.Split(l.cause.found, "|"), func(found string) bool {
		ok, err := path.Match(found, fmt.Sprint(loss.Stage, " ", loss.Reason, " ", loss.Where))
		return ok && err == nil && (loss.Device == l.cause.device || loss.Device == "" || loss.Device == "?" || l.cause.of == "-")
	})
}

// check brings the cause about, and checks what is told of it. Unless this is the last attempt, it
// returns false if fewer packets are told than were lost.
func (l *lab) check(last bool) bool {
	l.Helper()
	want := l.cause.do(l)
	patience := testnet.Patience
	switch {
	case l.cause.found == "" && !testnet.Emulated():
		patience = 2 * time.Second // for something that should not come
	case !last && !testnet.Emulated():
		patience = 10 * time.Second
	}
	var c drops.Counts
	found := uint64(0)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c, found = l.read(), 0
		for _, r := range l.rows(c) {
			if l.isWanted(r.Loss) {
				found += r.packets
			}
		}
		if found >= want || l.cause.found == "" && len(c.Check.Unexplained) > 0 || time.Now().After(deadline) {
			break
		}
	}
	if found < want && l.cause.found != "" && !last {
		l.Logf("%d packets of %s, want %d: again", found, l.cause.found, want)
		return false
	}
	// A host with IPv6 also sends to groups of its own.
	atLeast := l.cause.v6 && strings.HasPrefix(l.cause.found, "harmless")
	if l.cause.found != "" && (found != want && !(atLeast && found > want) || want == 0) {
		l.Errorf("%d packets of %s, want %d", found, l.cause.found, want)
	}
	for _, r := range l.rows(c) {
		switch wanted := l.isWanted(r.Loss); {
		case wanted:
			l.Logf("%s %s %s at %q: %d", r.Stage, r.Reason, r.Where, r.Device, r.packets)
		case r.Stage == "harmless", r.Stage == "unclear", r.Stage == "duplicate" && r.Device == "?": // of neighbour discovery, or of others
			l.Logf("%s %s %s at %q: %d, which was not looked for", r.Stage, r.Reason, r.Where, r.Device, r.packets)
		default:
			l.Errorf("also %s %s %s at %q: %d", r.Stage, r.Reason, r.Where, r.Device, r.packets)
		}
	}
	l.checkAdvice(c)
	l.checkCulprit(c)
	if left := l.cause.left; left != "" && (len(c.Check.Unexplained) != 1 || c.Check.Unexplained[0] != drops.CounterRise{Counter: left, Packets: want}) || left == "" && len(c.Check.Unexplained) > 0 {
		l.Errorf("unexplained: %+v, want %q", c.Check.Unexplained, left)
	}
	if len(c.Check.Unconfirmed) > 0 {
		l.Errorf("unconfirmed: %+v", c.Check.Unconfirmed)
	}
	return true
}

// checkAdvice checks that there is one line of advice, the right one, and that it fits into a line.
func (l *lab) checkAdvice(c drops.Counts) {
	l.Helper()
	maps.DeleteFunc(c.Losses, func(loss drops.Loss, _ drops.Tally) bool { return !l.isWanted(loss) })
	maps.DeleteFunc(c.Unclear, func(loss drops.Loss, _ drops.Tally) bool {
		loss.Stage = "unclear"
		return !l.isWanted(loss)
	})
	report := counters.NewDropsReport(new(counters.DropsOptions), l.RxName, meter.Interval[drops.Counts]{Now: c, Took: time.Second})
	lines := report.Advice()
	if l.cause.advice == "" {
		if len(lines) > 0 {
			l.Errorf("advice about what is no loss: %q", lines)
		}
		return
	}
	if len(lines) != 1 || !strings.Contains(lines[0], l.cause.advice) || len(lines[0]) > 100 {
		l.Errorf("advice %q, want %q", lines, l.cause.advice)
	}
}

// checkCulprit checks that the loss names who has caused it, and nobody else.
func (l *lab) checkCulprit(c drops.Counts) {
	l.Helper()
	var found []string
	for loss, evidence := range c.Evidence {
		for _, e := range evidence {
			if text := fmt.Sprint(e.Packets, " ", e.Text); l.isWanted(loss) && !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	if len(found) == 0 && testnet.Emulated() {
		return // other kernels tell less
	}
	if want := l.cause.culprit; want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
		l.Errorf("culprits %q, want %q", found, want)
	}
}
