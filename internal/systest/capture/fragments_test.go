package capture_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// With --fragments a filter for a port takes all fragments of a datagram, or none, at every hook
// and in files. Those whose first fragment has not come before them are counted.
func TestFragments(t *testing.T) {
	t.Parallel()
	out := testnet.TxToRx()
	var sent, want [][]byte
	for i, frame := range [][]byte{
		out.UDP(1000, 5000, make([]byte, 1000)), out.UDP(1000, 5001, make([]byte, 1000)),
		out.UDPv6(1000, 5000, make([]byte, 1000)), out.UDPv6(1000, 5001, make([]byte, 1000)),
	} {
		first, later := fragments(frame, uint16(100+i), 800)
		sent = append(sent, later, first, later) // the first of the three comes too early
		if i%2 == 0 {
			want = append(want, first, later)
		}
	}
	sent = append(sent, out.UDP(1000, 5000, nil), out.UDP(1000, 5001, nil))
	want = append(want, out.UDP(1000, 5000, nil))

	check := func(t *testing.T, file string) {
		t.Helper()
		var got [][]byte
		packets, _ := systest.ReadFile(t, file)
		for _, p := range packets {
			got = append(got, p.Data)
		}
		if len(got) != len(want) {
			t.Fatalf("%d packets instead of %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("packet %d: %x, want %x", i, got[i], want[i])
			}
		}
	}
	for name, test := range map[string]struct {
		way    string // of the packets at the interface
		args   []string
		traced bool
	}{
		"native":  {way: "in", args: []string{"--xdp-mode", "native"}},
		"generic": {way: "in", args: []string{"--xdp-mode", "generic"}},
		"tc":      {way: "in", args: []string{"--at", "tc"}},
		"egress":  {way: "out", args: []string{"-Q", "out"}},
		"entry":   {way: "in", args: []string{"--rx-capture", "entry"}, traced: true},
		"exit":    {way: "in", args: []string{"--rx-capture", "exit"}, traced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			ns, ifname := pair.Rx, pair.RxName
			if test.way == "out" {
				ns, ifname = pair.Tx, pair.TxName
			}
			if test.traced {
				testnet.RequireFentry(t)
				testnet.MustTarget(t, pair, testnet.Hooked)
			}
			file := systest.TempFile(t)
			p := systest.Listening(t, ns, nil, append(test.args, "-i", ifname, "-w", file, "--fragments", "--json", "port 5000")...)
			for _, frame := range sent {
				testnet.Send(t, pair, frame)
			}
			s := systest.Account(t, p.Interrupt())
			if s.Seen != uint64(len(sent)) || s.Captured != uint64(len(want)) || s.Undecided != 4 || s.FilteredOut != s.Seen-s.Captured {
				t.Errorf("%+v", s.AccountKeys)
			}
			check(t, file)
		})
	}
	t.Run("read", func(t *testing.T) {
		t.Parallel()
		testnet.RequireRoot(t)
		ns := testnet.MustPair(t, testnet.PairOptions{}).Rx
		all, chosen := systest.TempFile(t), systest.TempFile(t)
		f, err := os.Create(all)
		testnet.Must(t, err)
		defer f.Close()
		w := pcapgo.NewWriter(f)
		testnet.Must(t, w.WriteFileHeader(1<<18, layers.LinkTypeEthernet))
		for i, frame := range sent {
			testnet.Must(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}, frame))
		}
		status, stderr := systest.Start(t, ns, nil, "read", all, "--fragments", "-w", chosen, "port 5000").Wait()
		if status != 0 || stderr != "xdpcap: omitted 4 packets: fragments whose first one is not in the files\n" {
			t.Errorf("status %d: %s", status, stderr)
		}
		check(t, chosen)
	})
}

// fragments splits a frame of UDP, IPv4 or IPv6, without tags, into two fragments of a datagram.
// The first one has this many bytes after the IP header, a multiple of 8.
func fragments(frame []byte, id uint16, size int) (first, later []byte) {
	const ethernet, ipv4, ipv6 = 14, 20, 40
	if frame[12] == 0x86 { // IPv6
		part := func(data []byte, offset uint16) []byte {
			b := bytes.Clone(frame[:ethernet+ipv6])
			binary.BigEndian.PutUint16(b[ethernet+4:], uint16(8+len(data)))
			b[ethernet+6] = byte(layers.IPProtocolIPv6Fragment)
			b = append(b, byte(layers.IPProtocolUDP), 0)
			b = binary.BigEndian.AppendUint16(b, offset)
			b = binary.BigEndian.AppendUint32(b, uint32(id))
			return append(b, data...)
		}
		data := frame[ethernet+ipv6:]
		return part(data[:size], 1), part(data[size:], uint16(size))
	}
	part := func(data []byte, offset uint16) []byte {
		b := bytes.Clone(frame[:ethernet+ipv4])
		binary.BigEndian.PutUint16(b[ethernet+2:], uint16(ipv4+len(data)))
		binary.BigEndian.PutUint16(b[ethernet+4:], id)
		binary.BigEndian.PutUint16(b[ethernet+6:], offset)
		return append(b, data...)
	}
	data := frame[ethernet+ipv4:]
	return part(data[:size], 0x2000), part(data[size:], uint16(size/8))
}
