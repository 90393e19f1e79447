package file

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
)

// Packets that a Writer or File of pcapng encodes directly are in the file as if passed to Write.
// Other formats encode no packets directly.
func TestWriteDirect(t *testing.T) {
	t.Parallel()
	var packets []capture.Packet
	for i := range 5000 { // more than fit into a chunk
		packets = append(packets, *testPacket(i))
	}
	for _, o := range []Options{{}, {Immediate: true}, {Format: PCAP}, {Format: JSON}} {
		var files [2]bytes.Buffer
		var accounts [2]capture.Accounts
		direct := 0
		for i := range files {
			w := testWriter(&files[i], o)
			for rest := packets; len(rest) > 0; {
				if i == 0 {
					err := w.WriteDirect(func(e *capture.Encoder, into *capture.Batch) (n int) {
						for n < len(rest) && cap(into.Blocks)-len(into.Blocks) > 200+capture.MaxOverhead && len(into.Ends) < cap(into.Ends) {
							p := &rest[n]
							into.Blocks = e.Append(into.Blocks, p)
							end := into.Start + int64(len(into.Blocks))
							into.Ends = append(into.Ends, capture.BlockEnd{End: end, Time: p.Time, Bytes: uint32(len(p.Data)), Source: uint32(p.Source)})
							n++
						}
						rest = rest[n:]
						direct += n
						return n
					})
					must(t, err)
				}
				n := min(len(rest), groupSize)
				must(t, w.Write(rest[:n]))
				rest = rest[n:]
			}
			must(t, w.queue.end())
			accounts[i] = w.stream.taken
		}
		if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
			t.Errorf("%+v: the files differ, of %d and %d bytes", o, files[0].Len(), files[1].Len())
		}
		if diff := cmp.Diff(accounts[1], accounts[0]); diff != "" {
			t.Errorf("%+v: %s", o, diff)
		}
		if (direct > 4000) != (o.Format == PCAPNG) || o.Format != PCAPNG && direct > 0 {
			t.Errorf("%+v: %d packets came directly", o, direct)
		}
	}
}

// Both support direct writing and the adaptive rate.
var (
	_ capture.DirectOutput = (*Writer)(nil)
	_ capture.DirectOutput = (*File)(nil)
	_ capture.Backlogged   = (*Writer)(nil)
	_ capture.Backlogged   = (*File)(nil)
)
