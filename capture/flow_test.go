package capture

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// flowOf is a packet's flow in the keys of the map `flows`, by what gopacket decodes of its
// headers.
func flowOf(h testnet.Headers) (f kernel.SamplerFlow) {
	const ipv6Fragment = 44
	a, b := h.Source, h.Destination
	switch {
	case h.Truncated || h.IPVersion == 0:
		f.Class = uint32(kernel.SamplerClassOTHER) + uint32(h.Protocol)
		if h.Truncated {
			f.Class = uint32(kernel.SamplerClassTRUNCATED)
		}
		copyAddress(&f.Source, h.Frame[6:12])
		copyAddress(&f.Destination, h.Frame[:6])
		return sorted(f)
	case h.Fragment: // all fragments are one flow, and only the first has ports
		a, b = netip.AddrPortFrom(a.Addr(), 0), netip.AddrPortFrom(b.Addr(), 0)
	}
	f.Class = uint32(kernel.SamplerClassV4) + uint32(h.Protocol)
	if h.IPVersion == 6 {
		f.Class = uint32(kernel.SamplerClassV6) + uint32(h.Protocol)
		if h.Fragment {
			f.Class = uint32(kernel.SamplerClassV6) + ipv6Fragment
		}
	}
	copyAddress(&f.Source, a.Addr().AsSlice())
	copyAddress(&f.Destination, b.Addr().AsSlice())
	f.SourcePort, f.DestinationPort = networkOrder(a.Port()), networkOrder(b.Port())
	return sorted(f)
}

func copyAddress(words *[2]uint64, address []byte) {
	copy((*[16]byte)(unsafe.Pointer(words))[:], address)
}

func networkOrder(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

// sorted puts the lower end first. No two ends of the table have one address.
func sorted(f kernel.SamplerFlow) kernel.SamplerFlow {
	s, d := f.Source, f.Destination
	if s[0] > d[0] || s[0] == d[0] && s[1] > d[1] {
		f.Source, f.Destination = d, s
		f.SourcePort, f.DestinationPort = f.DestinationPort, f.SourcePort
	}
	return f
}

// The flow of every packet is what gopacket decodes, also of packets that were cut at any length.
func TestProgramFlowsAgreeWithGopacket(t *testing.T) {
	t.Parallel()
	b := newProgramTest(t, Options{First: 1})
	flows := b.sampler.Maps[kernel.SamplerMapFlows]
	for _, whole := range testnet.HeaderTable() {
		for n := 14; n <= len(whole.Frame); n++ {
			h := whole.Cut(n)
			b.run(0, h.Frame, 1)
			want := kernel.SamplerFlowAtHook{Flow: flowOf(h)}
			if flows.Delete(&want) == nil {
				continue
			}
			var key kernel.SamplerFlowAtHook
			if err := flows.NextKey(nil, &key); err != nil {
				t.Fatalf("%s, %d bytes: no flow: %v", h.Name, n, err)
			}
			t.Fatalf("%s, %d bytes (-want +got): %s", h.Name, n, cmp.Diff(want.Flow, key.Flow, cmpopts.IgnoreFields(kernel.SamplerFlow{}, "_")))
		}
	}
}
