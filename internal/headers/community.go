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
	var memory [2 + 16 + 16 + 2 + 4]byte
	source, destination := h.Source.As16(), h.Destination.As16()
	from, to := source[:], destination[:]
	if h.Family == 4 {
		from, to = from[12:], to[12:]
	}
	var ports [4]byte
	hasPorts, oneWay := false, false
	switch h.Protocol {
	case TCP, UDP, SCTP:
		hasPorts = true
	case ICMP:
		hasPorts = true
		ports, oneWay = h.messagePorts(&icmpAnswers)
	case ICMPv6:
		hasPorts = true
		ports, oneWay = h.messagePorts(&icmp6Answers)
	}
	if hasPorts {
		if len(h.Rest) < 4 {
			return dst
		}
		if h.Protocol != ICMP && h.Protocol != ICMPv6 {
			ports = [4]byte(h.Rest)
		}
	}
	order := bytes.Compare(from, to)
	if order == 0 {
		order = bytes.Compare(ports[:2], ports[2:])
	}
	if order > 0 && !oneWay {
		from, to = to, from
		ports[0], ports[1], ports[2], ports[3] = ports[2], ports[3], ports[0], ports[1]
	}
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

// messagePorts returns the replacement for ports in the hash: the types of a message and its
// answer. For a message without an answer they are its type and code, and the direction counts.
func (h *Headers) messagePorts(answers *[256]uint16) (ports [4]byte, oneWay bool) {
	if len(h.Rest) < 2 {
		return ports, true
	}
	ports[1] = h.Rest[0]
	answer := answers[h.Rest[0]]
	if answer == 0 {
		ports[3] = h.Rest[1]
		return ports, true
	}
	ports[3] = uint8(answer - 1)
	return ports, false
}
