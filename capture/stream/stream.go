// Package stream sends the packets of a capture over TCP, as pcapng or pcap that other programs
// read while it lasts. A [Server] serves clients that connect to it; a [Sender] connects to a peer.
// Both are Outputs of package capture. A slow reader never makes a live session wait.
package stream

import "net"

// Options configure a Server or Sender. The zero value of each field is its default.
type Options struct {
	// PCAP sends classic pcap with microseconds instead of pcapng, for programs that cannot read
	// pcapng. Such a stream has only Ethernet packets, without counts of lost packets; the next
	// three fields are ignored.
	PCAP bool

	Application string // name and version of the program that sends, for the stream's header
	CommandLine string // for the comment in the header

	// Comments, if not nil, returns comments for a source's statistics at the end of a stream, each
	// shorter than 64 KiB. source is an index into Session.Sources. Any goroutine may call it until
	// End returns.
	Comments func(source int) []string

	// Peer, if not nil, returns a name for the peer of a Server's connection, and whether to admit
	// it. It is called before TLS, and must not wait for the peer. The Server admits at most
	// MaxClientsOfOne clients of one name, and any number with the name "". nil = all are admitted,
	// and the name is the network address: with IPv6, its first 64 bits.
	Peer func(net.Conn) (name string, admit bool)

	// Immediate makes each call of Write reach the clients at once. Otherwise packets are buffered
	// until there are 64 KiB of them or Flush is called.
	Immediate bool
}
