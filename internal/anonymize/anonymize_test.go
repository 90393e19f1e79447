package anonymize

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
)

// A given is an input that hands over the same packets again and again.
type given struct {
	capture.Input
	sources []capture.Source
	packets []capture.Packet
	left    int // calls of Read
}

func (g *given) Description() capture.Description {
	return capture.Description{
		Sources: g.sources, Options: capture.Options{
			Filter: "host 192.0.2.1", SnapLen: 100, Names: []capture.Name{{Address: netip.MustParseAddr("192.0.2.1"), Name: "shop/secret"}},
		},
		OutletName: func(capture.Outlet) string { return "enx0a1b2c3d4e5f" },
	}
}

func (g *given) Read(packets []capture.Packet, _ func()) (int, error) {
	if g.left == 0 {
		return 0, io.EOF
	}
	g.left--
	return copy(packets, g.packets), nil
}

func newGiven(frames ...[]byte) *given {
	mac, _ := net.ParseMAC("0a:1b:2c:3d:4e:5f")
	g := &given{sources: []capture.Source{{Name: "enx0a1b2c3d4e5f", Alias: "to 192.0.2.1", MAC: mac, Pod: capture.Pod{Namespace: "shop", Name: "secret"}}}}
	for _, frame := range frames {
		g.packets = append(g.packets, capture.Packet{Data: frame, Facts: &capture.Facts{
			WireLen: uint32(len(frame)), Hash: 7, HashKind: capture.ToeplitzHash, Weight: 5, ID: 9,
		}})
	}
	return g
}

// The description has no address, the packets keep their facts except the hash, and the originals
// are not changed.
func TestInput(t *testing.T) {
	t.Parallel()
	frame, addresses := (&generator{rng: rand.New(rand.NewPCG(3, 1))}).frame()
	before := bytes.Clone(frame)
	g := newGiven(frame, frame)
	g.left = 1
	key := randomKey(rand.New(rand.NewPCG(1, 1)))
	in := NewInput(g, key)
	d := in.Description()
	if said := fmt.Sprintf("%+v %+v", d.Sources, d.Options); strings.Contains(said, "192.0.2.1") || strings.Contains(strings.ToLower(said), "0a1b2c") ||
		strings.Contains(said, "0a:1b:2c:3d:4e:5f") || strings.Contains(said, "secret") {
		t.Errorf("the description has an address: %s", said)
	}
	if d.OutletName(1) != "interface" || d.Sources[0].MAC == nil || g.sources[0].Alias == "" {
		t.Errorf("outlet %s, source %+v", d.OutletName(1), d.Sources[0])
	}
	if !strings.Contains(d.Anonymized, key.Fingerprint()) || in.Unwrap() != capture.Input(g) {
		t.Errorf("said: %s", d.Anonymized)
	}
	packets := make([]capture.Packet, 4)
	if n, err := in.Read(packets, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for _, p := range packets[:2] {
		if p.HashKind != capture.NoHash || p.Hash != 0 || p.Weight != 5 || p.ID != 9 || int(p.WireLen) != len(frame) {
			t.Errorf("facts: %+v", p.Facts)
		}
		for _, a := range addresses {
			if bytes.Contains(p.Data, a) {
				t.Errorf("% x is left", a)
			}
		}
	}
	if !bytes.Equal(frame, before) || g.packets[0].HashKind != capture.ToeplitzHash {
		t.Error("the originals were changed")
	}
	if n, err := in.Read(packets, nil); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// Allocations are counted for the whole process, so this runs alone.
func TestInputAllocatesNothing(t *testing.T) {
	var frames [][]byte
	for seed := range uint64(32) {
		frame, _ := (&generator{rng: rand.New(rand.NewPCG(seed, 1))}).frame()
		frames = append(frames, frame)
	}
	g := newGiven(frames...)
	g.left = 1 << 30
	in := NewInput(g, new(Key))
	packets := make([]capture.Packet, len(frames))
	in.Read(packets, nil)
	if n := testing.AllocsPerRun(100, func() {
		clear(in.mapper.recent[:]) // so that addresses are mapped anew
		in.Read(packets, nil)
	}); n != 0 {
		t.Errorf("%v allocations for %d packets", n, len(frames))
	}
}

// BenchmarkInput measures a TCP packet, with addresses that are in the cache or not.
func BenchmarkInput(b *testing.B) {
	for _, version := range []string{"IPv4", "IPv6"} {
		for _, remembered := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/remembered=%t", version, remembered), func(b *testing.B) {
				frame := make([]byte, 74)
				if copy(frame[12:], []byte{8, 0, 0x45, 0, 0, 60}); version == "IPv6" {
					copy(frame[12:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6})
					frame[66] = 0x50
				} else {
					frame[23], frame[46] = 6, 0x50
				}
				copy(frame, "abcdefghijkl")
				g := newGiven(frame)
				g.left = 1 << 62
				in := NewInput(g, new(Key))
				packets := make([]capture.Packet, 1)
				b.ReportAllocs()
				for n := range b.N {
					if !remembered {
						frame[26], frame[27], frame[28], frame[29] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
					}
					in.Read(packets, nil)
				}
			})
		}
	}
}
