package capture_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/set"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// setFrames are frames from two hosts and back, by both versions of IP, and others.
func setFrames() (all [][]byte) {
	out := testnet.TxToRx()
	for i, p := range []testnet.Path{out, out.Reverse()} {
		port := uint16(1000 + i)
		all = append(all, p.UDP(port, 53, nil), p.UDPv6(port, 53, nil), p.UDP(port, 54, nil), p.ARPRequest(),
			p.TCP(testnet.Segment{SrcPort: 443, DstPort: port}), p.TCPv6(testnet.Segment{SrcPort: port, DstPort: 443}),
			testnet.VLAN(p.UDP(port, 53, nil), 5), p.ICMPEcho(false, 1), p.ICMPv6Echo(false, 1))
	}
	return all
}

// writeSets writes files for sets, by their names.
func writeSets(t *testing.T, files map[string]string) map[string]filter.Set {
	t.Helper()
	sets := make(map[string]filter.Set)
	for name, text := range files {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := set.New(name, path, set.OpenFile)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		sets[name] = s
	}
	return sets
}

// At every hook, programs look up in sets as filter.Program.Run does.
func TestSets(t *testing.T) {
	t.Parallel()
	from, to := testnet.TxEndpoint, testnet.RxEndpoint
	sets := writeSets(t, map[string]string{
		"hosts": fmt.Sprintf("# one of each version\n%s\n%s # six\n", from.IPv4, to.IPv6),
		"nets":  fmt.Sprintf("%s/31\n%s/128\n10.0.0.0/8", from.IPv4.Mask([]byte{255, 255, 255, 254}), from.IPv6),
		"ports": "443\n53\n",
		"none":  "# empty\n",
	})
	for i, test := range []struct {
		name    string
		traced  bool
		options capture.Options
	}{
		{"native", false, capture.Options{Mode: capture.Native}},
		{"generic", false, capture.Options{Mode: capture.Generic}},
		{"ingress", false, capture.Options{At: capture.AtIngress}},
		{"entry", true, capture.Options{Hooks: []capture.Hook{capture.Entry}}},
		{"exit", true, capture.Options{Hooks: []capture.Hook{capture.Exit}}},
	} {
		for j, expr := range []string{
			"host in @hosts or port in @ports",
			"src host in @hosts and not dst port in @ports",
			"ip6 dst host in @hosts or arp host in @hosts",
			"net in @nets and not port in @ports",
			"ip6 src net in @nets or src net in @nets and tcp src port in @ports",
			"vlan and src host in @hosts or host in @none",
			"inner (src net in @nets or port in @ports) or ip6 host in @hosts", // the longest for the verifier
		} {
			if testnet.Emulated() && (i+j)%3 != 0 || !testnet.Shared(i) {
				continue // a second each there
			}
			t.Run(test.name+"/"+expr, func(t *testing.T) {
				t.Parallel()
				if test.traced {
					testnet.RequireFentry(t)
				}
				o := test.options
				o.Filter, o.FilterSets = expr, sets
				program, err := filter.Compile(expr, filter.Options{Sets: sets})
				if err != nil {
					t.Fatal(err)
				}
				testSets(t, test.traced, o, program)
			})
		}
	}
}

func testSets(t *testing.T, traced bool, o capture.Options, program *filter.Program) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	if traced {
		target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.HookedFrags)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
	}
	o.Interfaces = []string{pair.RxName}
	var s *capture.Session
	if err := pair.Rx.Do(func() (err error) { s, err = capture.Open(o); return err }); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	frames, want := setFrames(), []string(nil)
	for _, frame := range frames {
		testnet.Send(t, pair, frame)
		if program.Run(frame, uint32(len(frame))) != 0 {
			want = append(want, fmt.Sprintf("%x", frame))
		}
	}
	if len(want) == 0 || len(want) == len(frames) {
		t.Errorf("%d of %d frames match: the test compares nothing", len(want), len(frames))
	}
	testnet.WaitFor(t, "the programs to see the frames", func() bool {
		accounts, err := s.Accounts()
		return err != nil || accounts.Total().Seen >= uint64(len(frames))
	})
	s.Stop()
	var got []string
	for p, err := range s.Packets(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%x", p.Data))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
