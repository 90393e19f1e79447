// Package stream sends the packets of a capture over TCP, as pcapng or pcap that other programs
// read while it lasts. A [Server] serves clients that connect to it; a [Sender] connects to a peer.
// Both are Outputs of package capture, and neither makes a live session wait for whoever reads
// slowly.
package stream

import "net"

// Options say how to send. The zero value of each field is its default.
type Options struct {
	// PCAP sends classic pcap with microseconds in place of pcapng, for programs that read no
	// other. It has only Ethernet packets: no losses, and nothing of the next three fields.
	PCAP bool

	Application string // name and version of the program that sends, for the stream's header
	CommandLine string // for the comment in the header

	// Comments, if not nil, returns comments for a source's statistics at the end of a stream, each
	// shorter than 64 KiB. source is an index into Session.Sources. Any goroutine may call it until
	// End returns.
	Comments func(source int) []string

	// Peer, if not nil, names who a connection of a Server is from, and reports whether to admit
	// it. It is called before TLS, and must not wait for the peer. Of one name the Server admits at
	// most MaxClientsOfOne clients, and any number of "". nil = all are admitted, and the name is
	// the network address: with IPv6, the first 64 bits of it.
	Peer func(net.Conn) (name string, admit bool)

	// Immediate makes each call of Write reach the clients at once. Otherwise packets are buffered
	// until there are 64 KiB of them or Flush is called.
	Immediate bool
}
