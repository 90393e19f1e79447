package capture_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// tellsCard says whether veth gives XDP programs what a card would know, on this kernel.
func tellsCard(t *testing.T, pair *testnet.Pair) (tells bool) {
	t.Helper()
	pair.Rx.Do(func() error {
		tells = len(support.Metadata(pair.RxIndex)) == 3
		return nil
	})
	return tells
}

// A VLAN tag that is beside the packet is put back, the filter sees it, and the hash and the tag
// are those of the sender's side.
func TestCard(t *testing.T) {
	t.Parallel()
	eachTransport(t, testCard)
}

func testCard(t *testing.T, transport capture.Transport) {
	pair, sender := newPair(t)
	if !tellsCard(t, pair) {
		t.Skip("this kernel's veth tells XDP programs no VLAN tags")
	}
	testnet.MustTagBeside(t, pair, 0x8100, 0x6005) // priority 3, VLAN 5
	frame := testnet.TxToRx().TCP(testnet.Segment{SrcPort: 1234, DstPort: 80})
	tagged := append(append(append([]byte(nil), frame[:12]...), 0x81, 0x00, 0x60, 0x05), frame[12:]...)
	for i, test := range []struct {
		name    string
		options capture.Options
		want    []byte // nil = filtered out
	}{
		{"whole", capture.Options{}, tagged},
		{"cut in the tag", capture.Options{SnapLen: 14}, tagged[:14]},
		{"cut before the tag", capture.Options{SnapLen: 10}, tagged[:10]},
		{"headers", capture.Options{HeadersOnly: true}, tagged[:58]},
		{"headers and payload", capture.Options{HeadersOnly: true, Payload: 2, Filter: "vlan 5"}, tagged[:60]},
		{"switched off", capture.Options{VLANRestore: capture.VLANRestoreOff}, frame},
		{"vlan", capture.Options{Filter: "vlan 5"}, tagged},
		{"another vlan", capture.Options{Filter: "vlan 6"}, nil},
		{"behind the tag", capture.Options{Filter: "vlan and tcp port 80", SnapLen: 20}, tagged[:20]},
		{"not behind the tag", capture.Options{Filter: "tcp port 80"}, nil},
		{"wherever", capture.Options{Filter: "tcp port 80", VLANAware: true}, tagged},
		{"length", capture.Options{Filter: fmt.Sprintf("vlan and len = %d", len(tagged))}, tagged},
		{"length alone", capture.Options{Filter: fmt.Sprintf("len = %d", len(frame))}, nil},
		{"filter without the tag", capture.Options{Filter: "tcp port 80", VLANRestore: capture.VLANRestoreOff}, frame},
	} {
		if !testnet.Shared(i + int(transport)) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			o := test.options
			o.Transport, o.Immediate, o.Hash = transport, true, true
			s := open(t, pair, o)
			must(t, sender.Send(frame))
			testnet.WaitFor(t, "the packet", func() bool { return total(t, s).Seen > 0 })
			s.Stop()
			asked := "hash vlan_tag"
			if o.VLANRestore == capture.VLANRestoreOff {
				asked = "hash"
			}
			if got := strings.Join(s.Sources()[0].CardMetadata, " "); got != asked {
				t.Errorf("the card was asked for %q, want %q", got, asked)
			}
			p := reader(t, s)()
			if p == nil || test.want == nil {
				if p != nil || test.want != nil {
					t.Errorf("captured: %+v", p)
				}
				return
			}
			if !bytes.Equal(p.Data, test.want) {
				t.Errorf("%x\nwant %x", p.Data, test.want)
			}
			length := len(tagged)
			if o.VLANRestore == capture.VLANRestoreOff {
				length = len(frame)
			}
			if int(p.WireLen) != length || p.HashKind != capture.SoftwareHash || p.Hash != testnet.TaggedHash || p.CardTime != 0 {
				t.Errorf("%d bytes on the wire, want %d; hash %#x of kind %d; card's time %d", p.WireLen, length, p.Hash, p.HashKind, p.CardTime)
			}
		})
	}
}

// The card's stamps are missing on veth: each packet has the host's and is counted.
func TestCardUnstamped(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	if !tellsCard(t, pair) {
		t.Skip("this kernel's veth tells XDP programs no time stamps")
	}
	s := open(t, pair, capture.Options{Stamp: capture.AdapterUnsyncedStamp, Count: 3})
	sendSeen(t, sender, s, 3)
	for p := range s.Packets(t.Context()) {
		if p.CardTime != 0 || p.Stamp() != p.Time {
			t.Errorf("time %d, the card's %d", p.Time, p.CardTime)
		}
	}
	checkAccount(t, s, capture.Account{Seen: 3, Captured: 3, Bytes: 192, Unstamped: 3})
}
