package pcapng

// The direction of a packet, bits 0 and 1 of Packet.Flags.
const (
	Inbound  = 1
	Outbound = 2

	DirectionMask = 3
)

// The reception type of a packet, bits 2 to 4 of Packet.Flags.
const (
	Unicast     = 1 << 2 // to the interface's own address
	Multicast   = 2 << 2
	Broadcast   = 3 << 2
	Promiscuous = 4 << 2 // to another station: seen only because the interface takes everything
)

// Reception returns the reception type of an Ethernet frame at an interface with the address mac,
// to be added to Packet.Flags. It is 0, not specified, where the frame is cut within its
// destination, and for a frame to one station where mac does not have 6 bytes.
func Reception(frame, mac []byte) uint32 {
	if len(frame) < 6 {
		return 0
	}
	switch dst := [6]byte(frame); {
	case dst == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}:
		return Broadcast
	case dst[0]&1 != 0:
		return Multicast
	case len(mac) != 6:
		return 0
	case dst == [6]byte(mac):
		return Unicast
	}
	return Promiscuous
}
