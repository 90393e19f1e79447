package headers

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
)

// AppendCommunityID appends the hash of the packet's conversation that Zeek, Suricata and Wireshark
// write; it is the same for both directions. It is version 1 of
// github.com/corelight/community-id-spec with the seed 0. It returns dst unchanged if the hash
// cannot be computed: for packets that are not IP, for fragments, and if the ports are truncated.
func (h *Headers) AppendCommunityID(dst []byte) []byte {
	if h.Family == 0 || h.Fragment {
		return dst
	}
	var ports [4]byte
	hasPorts, isOneWay := false, false
	switch h.Protocol {
	case TCP, UDP, SCTP, ICMP, ICMPv6:
		if len(h.Rest) < 4 {
			return dst
		}
		hasPorts, ports = true, [4]byte(h.Rest)
	}
	switch h.Protocol {
	case ICMP:
		ports, isOneWay = messagePorts(h.Rest[0], h.Rest[1], &icmpAnswers)
	case ICMPv6:
		ports, isOneWay = messagePorts(h.Rest[0], h.Rest[1], &icmp6Answers)
	}
	source, destination := h.Source.As16(), h.Destination.As16()
	from, to := source[:], destination[:]
	if h.Family == 4 {
		from, to = from[12:], to[12:]
	}
	order := bytes.Compare(from, to)
	if order == 0 {
		order = bytes.Compare(ports[:2], ports[2:])
	}
	if order > 0 && !isOneWay {
		from, to = to, from
		ports[0], ports[1], ports[2], ports[3] = ports[2], ports[3], ports[0], ports[1]
	}
	var memory [2 + 16 + 16 + 2 + 4]byte // the seed, the addresses, the protocol, and the ports
	b := append(memory[:2], from...)
	b = append(append(b, to...), h.Protocol, 0)
	if hasPorts {
		b = append(b, ports[:]...)
	}
	sum := sha1.Sum(b)
	return base64.StdEncoding.AppendEncode(append(dst, "1:"...), sum[:])
}

// icmpAnswers and icmp6Answers map a message type to the type of its answer, or of the message that
// it answers, plus 1, so that 0 means that it has no answer.
var (
	icmpAnswers  = pairs(0, 8, 9, 10, 13, 14, 15, 16, 17, 18)
	icmp6Answers = pairs(128, 129, 130, 131, 133, 134, 135, 136, 139, 140, 144, 145)
)

func pairs(types ...int) (answers [256]uint16) {
	for i := 0; i < len(types); i += 2 {
		answers[types[i]], answers[types[i+1]] = uint16(types[i+1])+1, uint16(types[i])+1
	}
	return answers
}

// messagePorts returns the replacement for ports in the hash: the types of a message and of its
// answer. For a message without an answer they are its type and code, and the direction counts.
func messagePorts(kind, code uint8, answers *[256]uint16) (ports [4]byte, isOneWay bool) {
	if answer := answers[kind]; answer != 0 {
		return [4]byte{0, kind, 0, uint8(answer - 1)}, false
	}
	return [4]byte{0, kind, 0, code}, true
}
