package sflow

// A Packet is the part of a packet that samples contain.
type Packet struct {
	Data        []byte // its first bytes, from the Ethernet header on, copied
	FrameLength uint32 // bytes on the wire, with the frame check sequence
	Stripped    uint32 // bytes of FrameLength that were removed before Data was truncated: the check sequence
	Tagged      bool   // Tag is known
	Tag         uint16 // the control information of the outer VLAN tag
}

// headerEthernet is the protocol of a packet that begins with an Ethernet header.
const headerEthernet = 1

// appendPacket appends the records about a packet, and returns their number.
func appendPacket(b []byte, p *Packet) ([]byte, uint32) {
	start := len(b)
	b = appendAll(appendRecord(b, recordRawPacket), headerEthernet, p.FrameLength, p.Stripped)
	b = finish(appendOpaque(b, p.Data), start)
	if !p.Tagged {
		return b, 1
	}
	// The packet was captured on its way in. Its tag on the way out is unknown, so the record
	// repeats the same one.
	id, priority := uint32(p.Tag&0xfff), uint32(p.Tag>>13)
	start = len(b)
	b = appendRecord(b, recordSwitch)
	return finish(appendAll(b, id, priority, id, priority), start), 2
}

// An Interface is the interface on which a packet came in or went out. The zero value means
// unknown.
type Interface struct {
	Format uint32 // the type of Value: IsIndex or IsDiscard
	Value  uint32
}

// Formats of an Interface.
const (
	IsIndex   = 0 // of an interface
	IsDiscard = 1 // a Reason: the packet was discarded
)

// A Sampling describes the sampling of a source. Pool and Drops count the source's packets since
// the agent started, modulo 2^32.
type Sampling struct {
	Rate  uint32 // packets that one sample represents
	Pool  uint32 // packets that could have been sampled
	Drops uint32 // samples that were lost
}

// A Flow is a flow sample: one sampled packet.
type Flow struct {
	Sequence uint32 // of the interface's flow samples
	Index    uint32 // of the interface
	Sampling
	Input, Output Interface
	Packet        Packet
}

// The offsets of fields in a sample. The first one is the same in a notification.
const (
	samplingAt    = 8 + 4 + 8
	flowRecordsAt = samplingAt + 12 + 16
)

// maxFlow is the largest length of a flow sample without the packet's bytes.
const maxFlow = flowRecordsAt + 4 + 8 + 16 + 3 + 24

// appendFlow appends f.
func appendFlow(b []byte, f *Flow) []byte {
	start := len(b)
	b = appendStart(b, sampleFlow, f.Sequence, f.Index)
	b = appendAll(b, f.Rate, f.Pool, f.Drops)
	b = appendAll(b, f.Input.Format, f.Input.Value, f.Output.Format, f.Output.Value)
	records := len(b)
	b, n := appendPacket(be.AppendUint32(b, 0), &f.Packet)
	be.PutUint32(b[records:], n)
	return finish(b, start)
}

// setSampling replaces the Sampling of a flow sample that appendFlow has appended.
func setSampling(flow []byte, s Sampling) {
	at := flow[samplingAt:]
	be.PutUint32(at, s.Rate)
	be.PutUint32(at[4:], s.Pool)
	be.PutUint32(at[8:], s.Drops)
}

// A Discard is a discarded packet's notification.
type Discard struct {
	Sequence uint32 // of the interface's notifications
	Index    uint32 // of the interface
	Drops    uint32 // the interface's notifications that were not made since the start, modulo 2^32
	Input    uint32 // index of the interface the packet came in on; 0 = unknown
	Reason   Reason
	Packet   Packet
	Function string // the function or program that discarded the packet; truncated to 64 bytes
	Linux    string // the kernel's name for the reason; truncated to 64 bytes
}

// maxName is the largest length of a name in a notification.
const maxName = 64

// maxDiscard is the largest length of a notification without the packet's bytes.
const maxDiscard = 8 + 12 + 20 + 8 + 16 + 3 + 24 + 2*(8+4+maxName)

// appendDiscard appends d.
func appendDiscard(b []byte, d *Discard) []byte {
	start := len(b)
	b = appendStart(b, sampleDiscarded, d.Sequence, d.Index)
	b = appendAll(b, d.Drops, d.Input, 0, uint32(d.Reason))
	records := len(b)
	b, n := appendPacket(be.AppendUint32(b, 0), &d.Packet)
	for _, name := range []struct {
		record uint32
		text   string
	}{{recordFunction, d.Function}, {recordLinuxReason, d.Linux}} {
		if name.text != "" {
			at := len(b)
			b = finish(appendText(appendRecord(b, name.record), name.text, maxName), at)
			n++
		}
	}
	be.PutUint32(b[records:], n)
	return finish(b, start)
}

// setDrops replaces Drops in a notification that appendDiscard has appended.
func setDrops(discard []byte, drops uint32) { be.PutUint32(discard[samplingAt:], drops) }
