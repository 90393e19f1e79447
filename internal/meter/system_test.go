package meter

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
var must = testnet.Must

// openIn opens something in a namespace, and closes it at the end of the test.
func openIn[T io.Closer](t *testing.T, ns *testnet.Namespace, open func() (T, error)) (v T) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		v, err = open()
		return err
	}))
	t.Cleanup(func() { v.Close() })
	return v
}

func openActions(t *testing.T, pair *testnet.Pair, o ActionsOptions) *Actions {
	t.Helper()
	o.Interface = pair.RxName
	return openIn(t, pair.Rx, func() (*Actions, error) { return OpenActions(o) })
}

func openProtocols(t *testing.T, pair *testnet.Pair, o ProtocolsOptions) *Protocols {
	t.Helper()
	o.Interface = pair.RxName
	return openIn(t, pair.Rx, func() (*Protocols, error) { return OpenProtocols(o) })
}

// read calls a function in the receiving namespace, and returns its result.
func read[S any](t *testing.T, pair *testnet.Pair, reader func() (S, error)) (s S) {
	t.Helper()
	must(t, pair.Rx.Do(func() (err error) {
		s, err = reader()
		return err
	}))
	return s
}

// readMeanwhile reads a number of packets again and again, which must never fall, until stop is
// called or the test ends.
func readMeanwhile(t *testing.T, read func() (packets uint64, err error)) (stop func()) {
	t.Helper()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for before := uint64(0); ; time.Sleep(time.Millisecond) {
			select {
			case <-done:
				return
			default:
			}
			now, err := read()
			if err != nil || now < before {
				t.Errorf("%d packets after %d, %v", now, before, err)
				return
			}
			before = now
		}
	}()
	stop = sync.OnceFunc(func() {
		close(done)
		<-stopped
	})
	t.Cleanup(stop) // counters must not be closed while they are read
	return stop
}

// volume is how many of these frames a test sends.
func volume(frames uint64) uint64 {
	if testing.Short() {
		frames /= 20
	}
	return testnet.Volume(frames)
}

// A million frames are all counted, with their bytes and the right verdict, even while others read.
func TestActionsMillion(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	for _, verdict := range []xdp.Verdict{xdp.Drop, xdp.Aborted, xdp.Pass} {
		t.Run(verdict.String(), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			a := openActions(t, pair, ActionsOptions{Verdict: verdict, Queues: 1})
			var stops []func()
			for range 2 {
				stops = append(stops, readMeanwhile(t, func() (uint64, error) {
					c, err := a.Read()
					return c.Total()[verdict].Packets, err
				}))
			}
			const size = 100
			_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: volume(1_000_000)})
			for _, stop := range stops {
				stop()
			}
			var want VerdictTallies
			want[verdict] = Tally{delivered, delivered * size}
			got := read(t, pair, a.Read)
			if diff := cmp.Diff([]VerdictTallies{want, want}, []VerdictTallies{got.Total(), got.Queue(0)}); diff != "" {
				t.Errorf("in all, and of queue 0: %s", diff)
			}
		})
	}
}

// fexit counts the verdicts of somebody else's program, which keeps its packets and verdicts.
func TestActionsTrace(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	testnet.RequireLiveFrames(t)
	for i, test := range []struct {
		returned, counted xdp.Verdict
	}{
		{xdp.Drop, xdp.Drop},
		{xdp.Pass, xdp.Pass},
		{xdp.Tx, xdp.Tx},
		{testnet.NoVerdict, xdp.UnknownVerdict},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.returned.String(), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			traced := testnet.MustReceiver(t, pair, test.returned, testnet.ReceiverOptions{Count: true})
			var readers [2]*Actions
			for i := range readers {
				readers[i] = openActions(t, pair, ActionsOptions{Verdict: xdp.Pass})
			}
			const size = 100
			_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: volume(1_000_000)})
			c, err := traced.Total()
			must(t, err)
			if c.Packets != delivered {
				t.Errorf("the traced program saw %d packets of %d", c.Packets, delivered)
			}
			var want VerdictTallies
			want[test.counted] = Tally{delivered, delivered * size}
			for _, a := range readers {
				if diff := cmp.Diff(want, read(t, pair, a.Read).Total()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// A tracing program counts the same as our own program, for every packet of the table that can be
// sent and that its filter takes: with sizes and flows at the program's exit, else at its entry.
func TestProtocolsTrace(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	testnet.RequireLiveFrames(t)
	var rows []ProtocolsOptions
	for _, v := range Variants {
		rows = append(rows, ProtocolsOptions{Variant: v})
	}
	for _, text := range filters {
		rows = append(rows, ProtocolsOptions{Filter: mustCompile(t, text)})
	}
	for i, o := range rows {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
			entry := openProtocols(t, pair, o)
			o.Sizes, o.Flows = true, true
			exit := openProtocols(t, pair, o)
			want := newTruth(o.Filter)
			for _, p := range protocolTable {
				if len(p.packet) > 1500+18 {
					continue // longer than the pair's MTU allows
				}
				_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: p.packet, Raw: true, Count: 20})
				want.add(p, delivered)
			}
			want.checkClasses(t, "at the entry", read(t, pair, entry.Read))
			got := read(t, pair, exit.Read)
			want.checkClasses(t, "at the exit", got)
			want.checkSizes(t, "at the exit", got)
			want.checkFlows(t, "at the exit", got, xdp.Drop)
		})
	}
}

// All variants count a million frames of several protocols exactly as they were sent. Meanwhile no
// table has packets that are not in the one of classes.
func TestProtocolsMillion(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	for i, v := range Variants {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			p := openProtocols(t, pair, ProtocolsOptions{Variant: v, Sizes: true, Flows: true})
			stop := readMeanwhile(t, func() (uint64, error) {
				c, err := p.Read()
				all, sizes, flows := c.Total().Packets, Tally{}, c.Overflow.Tally
				for _, size := range c.Sizes {
					sizes.Add(size)
				}
				for _, f := range allFlows(c) {
					flows.Add(Tally{f.Packets, f.Bytes})
				}
				if err == nil && (sizes.Packets > all || flows.Packets > all) {
					err = fmt.Errorf("%d packets in all, %d by size, %d by flow", all, sizes.Packets, flows.Packets)
				}
				return all, err
			})
			want := newTruth(nil)
			for _, test := range []struct {
				protocolPacket
				count uint64
			}{
				{protocolPacket{packet: tcp4, class: IPv4(6), size: 0}, 400_000},
				{protocolPacket{packet: testnet.UDPFrame(700, 0), class: IPv4(17), size: 4}, 300_000},
				// This frame has no tag, because the generator sends pages again as the kernel's
				// stack left them, and the stack removes tags.
				{protocolPacket{packet: tcp6, class: IPv6(6), size: 1}, 200_000},
				{protocolPacket{packet: txRx.ARPRequest(), class: EtherType(0x0806), size: 0}, 100_000},
			} {
				_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: test.packet, Raw: true, Count: volume(test.count)})
				want.add(test.protocolPacket, delivered)
			}
			stop()
			got := read(t, pair, p.Read)
			want.checkClasses(t, "in all", got)
			want.checkSizes(t, "in all", got)
		})
	}
}

// When our own program has left the interface, Follow says so, and the counters stay readable.
func TestGone(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	a := openActions(t, pair, ActionsOptions{Verdict: xdp.Pass})
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if notice, err := a.Follow(); notice != "" || err != nil {
		t.Errorf("nothing has changed: %q, %v", notice, err)
	}
	own := testnet.LinksOf(t, a.Program().ID)[0]
	must(t, errors.Join(own.Detach(), own.Close()))
	if notice, err := a.Follow(); notice != "" || err == nil || errors.Is(err, ErrNotCounting) {
		t.Errorf("the program has gone: %q, %v", notice, err)
	}
	if total := read(t, pair, a.Read).Total(); total.Sum() != (Tally{1, 100}) {
		t.Errorf("counted %v", total)
	}
}
