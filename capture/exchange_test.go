package capture_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// While packets come, the filter is replaced again and again: at every hook each packet meets one
// filter, the accounts add up to what was sent, and each source has packets that its filter
// matches.
func TestSetFilter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		traced  bool
		options capture.Options
		hooks   int
	}{
		{"native", false, capture.Options{Mode: capture.Native}, 1},
		{"generic", false, capture.Options{Mode: capture.Generic}, 1},
		{"sent", false, capture.Options{Direction: capture.Out}, 1},
		{"ingress", false, capture.Options{At: capture.AtIngress}, 1},
		{"entry", true, capture.Options{Hooks: []capture.Hook{capture.Entry}}, 1},
		{"exit", true, capture.Options{Hooks: []capture.Hook{capture.Exit}}, 1},
		{"entry and exit", true, capture.Options{Hooks: []capture.Hook{capture.Entry, capture.Exit}}, 2},
		{"entry that waits", true, capture.Options{Hooks: []capture.Hook{capture.Entry}, Verdicts: []capture.Verdict{capture.Pass}}, 1},
		{"pattern", false, capture.Options{Patterns: []string{"rx*"}}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.traced {
				testnet.RequireFentry(t)
			}
			pair, s := atHook(t, test.traced, refiltered(test.options))
			testSetFilter(t, pair, s, test.hooks)
		})
	}
	t.Run("program at tc egress", func(t *testing.T) {
		t.Parallel()
		testnet.RequireFentry(t)
		pair := testnet.MustPair(t, testnet.PairOptions{})
		target, err := testnet.NewTarget(testnet.AtTC)
		must(t, err)
		defer target.Close()
		must(t, target.AttachAtTC(pair.Tx, pair.TxName, true, true))
		o := refiltered(capture.Options{
			Interfaces: []string{pair.TxName}, Targets: []string{"rewriting_tc_target"}, Hooks: []capture.Hook{capture.Entry},
		})
		var s *capture.Session
		must(t, pair.Tx.Do(func() (err error) { s, err = capture.Open(o); return err }))
		defer s.Close()
		testSetFilter(t, pair, s, 1)
	})
}

// refiltered returns options of a session whose filter changes.
func refiltered(o capture.Options) capture.Options {
	o.Filter, o.FilterChanges = "udp dst port 1000", true
	return o
}

// numbered returns a frame to port 1000, 1001 or 1002 with a number.
func numbered(i uint64) []byte {
	return testnet.TxToRx().UDP(7, 1000+uint16(i%3), binary.BigEndian.AppendUint64(nil, i))
}

func testSetFilter(t *testing.T, pair *testnet.Pair, s *capture.Session, hooks int) {
	exchanges := 20
	if testnet.Emulated() {
		exchanges = 5
	}
	var stop atomic.Bool
	defer stop.Store(true)
	sent := make(chan uint64, 1)
	sender := testnet.MustSender(t, pair)
	go func() {
		runtime.LockOSThread() // for good: packets that are sent on two CPUs may overtake each other
		var one unix.CPUSet
		one.Set(0)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
		}
		i := uint64(0)
		for ; !stop.Load(); i++ {
			for i%1000 == 0 && unread(t, s) > 10_000 { // the rings have room for many more
				time.Sleep(time.Millisecond)
			}
			err := sender.Send(numbered(i))
			for errors.Is(err, unix.ENOBUFS) { // the queue of the veth is full
				time.Sleep(time.Millisecond)
				err = sender.Send(numbered(i))
			}
			if err != nil {
				t.Error(err)
				break
			}
		}
		sent <- i
	}()
	captured := make(chan map[string][]uint64)
	go func() { captured <- numbersBySource(t, s) }()
	await := func() {
		t.Helper()
		before := seen(t, s)
		testnet.WaitFor(t, "packets for a filter", func() bool { return seen(t, s) > before+100 })
	}
	for i := range exchanges {
		await()
		filter := fmt.Sprintf("udp dst port %d", 1000+(i+1)%3)
		if i%4 == 3 {
			filter = ""
		}
		must(t, s.SetFilter(filter))
		if err := s.SetFilter("no such filter"); err == nil || !strings.Contains(err.Error(), `replace the filter by "no such filter"`) {
			t.Errorf("a wrong filter: %v", err)
		}
	}
	await()
	stop.Store(true)
	n := <-sent
	testnet.WaitFor(t, "the programs to see the packets", func() bool { return seen(t, s) >= n*uint64(hooks) })
	s.Stop()
	got := <-captured
	accounts, err := s.Accounts()
	must(t, err)
	total := accounts.Total()
	if total.Seen != n*uint64(hooks) || total.Lost > 0 || total.Unexplained != 0 {
		t.Errorf("%d packets were sent, and the account is %s", n, total.Equation())
	}
	if want := hooks * (exchanges + 1); len(accounts) != want || len(s.Gone()) != want-hooks {
		t.Errorf("%d sources, of which %d have gone, want %d", len(accounts), len(s.Gone()), want)
	}
	checkNumbers(t, s.Sources(), got)
	for range 2 {
		if err := s.SetFilter("udp"); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		must(t, s.Close())
	}
}

func seen(t *testing.T, s *capture.Session) uint64 {
	accounts, err := s.Accounts()
	must(t, err)
	return accounts.Total().Seen
}

// unread returns how many packets are in the rings.
func unread(t *testing.T, s *capture.Session) uint64 {
	accounts, err := s.Accounts()
	if err != nil {
		t.Error(err)
	}
	return accounts.Total().Pending()
}

// numbersBySource returns the numbers of the packets that a session captures.
func numbersBySource(t *testing.T, s *capture.Session) map[string][]uint64 {
	all := make(map[string][]uint64)
	for p, err := range s.Packets(t.Context()) {
		if err != nil {
			t.Error(err)
			break
		}
		key := fmt.Sprint(p.Source)
		all[key] = append(all[key], binary.BigEndian.Uint64(p.Data[42:]))
	}
	return all
}

// checkNumbers checks that each source has all packets that its filter matches between its first
// and its last one, and that the sources of a hook follow each other.
func checkNumbers(t *testing.T, sources []capture.Source, got map[string][]uint64) {
	t.Helper()
	next := make(map[capture.Hook]uint64) // the lowest number that the next source of a hook may have
	for i, src := range sources {
		numbers := got[fmt.Sprint(i)]
		if len(numbers) == 0 {
			t.Errorf("source %d has no packets", i)
			continue
		}
		if numbers[0] < next[src.Hook] {
			t.Errorf("source %d has the packet %d, and the one before it has %d", i, numbers[0], next[src.Hook]-1)
		}
		step := uint64(3)
		if src.Filter == "" {
			step = 1
		}
		for j, number := range numbers {
			if src.Filter != "" && src.Filter != fmt.Sprintf("udp dst port %d", 1000+number%3) || number != numbers[0]+uint64(j)*step {
				t.Errorf("source %d with the filter %q has the packets %d", i, src.Filter, numbers[max(0, j-2):min(len(numbers), j+3)])
				break
			}
		}
		next[src.Hook] = numbers[len(numbers)-1] + 1
	}
	if extra := len(got) - len(sources); extra > 0 {
		t.Errorf("packets of sources that are not listed: %v", slices.Sorted(maps.Keys(got)))
	}
}
