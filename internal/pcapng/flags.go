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
	Promiscuous = 4 << 2 // to another station: received only in promiscuous mode
)
