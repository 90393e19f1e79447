package meter

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%+v", err)
	}
}

func inNamespace(t *testing.T, ns *testnet.Namespace, f func() error) {
	t.Helper()
	must(t, ns.Do(f))
}

func read[S any](t *testing.T, pair *testnet.Pair, reader func() (S, error)) (s S) {
	t.Helper()
	inNamespace(t, pair.Rx, func() (err error) {
		s, err = reader()
		return err
	})
	return s
}

// A million frames are all counted, with their bytes and the right verdict, even while others read.
func TestActionsMillion(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	for _, verdict := range []xdp.Verdict{xdp.Drop, xdp.Aborted, xdp.Pass} {
		t.Run(verdict.String(), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			var a *Actions
			inNamespace(t, pair.Rx, func() (err error) {
				a, err = OpenActions(ActionsOptions{Interface: pair.RxName, Verdict: verdict, Queues: 1})
				return err
			})
			defer a.Close()

			// These readers read all the time, and must only see the counters grow.
			done := make(chan struct{})
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					var before uint64
					for {
						select {
						case <-done:
							return
						default:
						}
						c, err := a.Read()
						if err != nil {
							t.Error(err)
							return
						}
						now := c.Total()[verdict].Packets
						if now < before {
							t.Errorf("%d packets after %d", now, before)
						}
						before = now
						time.Sleep(time.Millisecond)
					}
				})
			}
			stop := sync.OnceFunc(func() { close(done); readers.Wait() })
			defer stop() // also if Generate ends the test: the counters must not be closed while they are read
			const size = 100
			_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{
				Frame: testnet.UDPFrame(size, 0), Count: testnet.Volume(1_000_000),
			})
			stop()

			var want VerdictTallies
			want[verdict] = Tally{delivered, delivered * size}
			got := read(t, pair, a.Read)
			if diff := cmp.Diff(want, got.Total()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, got.Queue(0)); diff != "" {
				t.Error("queue 0:", diff)
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
			pair := testnet.MustPair(t, testnet.PairOptions{})
			traced := testnet.MustReceiver(t, pair, test.returned, testnet.ReceiverOptions{Count: true})
			var readers [2]*Actions
			for i := range readers {
				inNamespace(t, pair.Rx, func() (err error) {
					readers[i], err = OpenActions(ActionsOptions{Interface: pair.RxName, Verdict: xdp.Pass})
					return err
				})
				defer readers[i].Close()
			}
			const size = 100
			_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{
				Frame: testnet.UDPFrame(size, 0), Count: testnet.Volume(1_000_000),
			})
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
// sent.
func TestProtocolsTrace(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	testnet.RequireLiveFrames(t)
	for i, v := range Variants {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(v.String(), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
			var p *Protocols
			inNamespace(t, pair.Rx, func() (err error) {
				p, err = OpenProtocols(ProtocolsOptions{Interface: pair.RxName, Variant: v, Sizes: true, Flows: true})
				return err
			})
			defer p.Close()
			classes, flows := make(map[string]Tally), make(map[Flow]Tally)
			var sizes [protocolsLimitSIZES]Tally
			for _, test := range protocolTable {
				if len(test.packet) > 1500+18 {
					continue // longer than the pair's MTU allows
				}
				_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: test.packet, Raw: true, Count: 20})
				tally := Tally{delivered, delivered * uint64(len(test.packet))}
				addTo(classes, test.class.String(), tally)
				sizes[test.size].Add(tally)
				if test.flow != nil {
					addTo(flows, *test.flow, tally)
				}
			}
			got := read(t, pair, p.Read)
			if diff := cmp.Diff(classes, byClass(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(sizes, got.Sizes); diff != "" {
				t.Error("sizes:", diff)
			}
			if diff := cmp.Diff(flows, exactFlows(t, got, xdp.Drop), equalAddrs); diff != "" {
				t.Error("flows:", diff)
			}
		})
	}
}

// All variants count a million frames of several protocols exactly as they were sent.
func TestProtocolsMillion(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	for i, v := range Variants {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(v.String(), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			var p *Protocols
			inNamespace(t, pair.Rx, func() (err error) {
				p, err = OpenProtocols(ProtocolsOptions{Interface: pair.RxName, Variant: v, Sizes: true})
				return err
			})
			defer p.Close()
			want := make(map[string]Tally)
			var sizes [protocolsLimitSIZES]Tally
			for _, test := range []struct {
				frame []byte
				class Class
				size  int
				count uint64
			}{
				{tcp4, IPv4(6), 0, 400_000},
				{testnet.UDPFrame(700, 0), IPv4(17), 4, 300_000},
				// This frame has no tag, because the generator sends pages again as the kernel's
				// stack left them, and the stack removes tags.
				{tcp6, IPv6(6), 1, 200_000},
				{txRx.ARPRequest(), EtherType(0x0806), 0, 100_000},
			} {
				_, delivered := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: test.frame, Raw: true, Count: testnet.Volume(test.count)})
				tally := Tally{delivered, delivered * uint64(len(test.frame))}
				addTo(want, test.class.String(), tally)
				sizes[test.size].Add(tally)
			}
			got := read(t, pair, p.Read)
			if diff := cmp.Diff(want, byClass(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(sizes, got.Sizes); diff != "" {
				t.Error("sizes:", diff)
			}
		})
	}
}

// When our own program has left the interface, Follow says so, and the counters stay readable.
func TestGone(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	var a *Actions
	inNamespace(t, pair.Rx, func() (err error) {
		a, err = OpenActions(ActionsOptions{Interface: pair.RxName, Verdict: xdp.Pass})
		return err
	})
	defer a.Close()
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if notice, err := a.Follow(); notice != "" || err != nil {
		t.Errorf("nothing has changed: %q, %v", notice, err)
	}
	a.attachment.counts[0].link.Close()
	if notice, err := a.Follow(); notice != "" || err == nil || errors.Is(err, ErrNotCounting) {
		t.Errorf("the program has gone: %q, %v", notice, err)
	}
	if total := read(t, pair, a.Read).Total(); total.Sum() != (Tally{1, 100}) {
		t.Errorf("counted %v", total)
	}
}
