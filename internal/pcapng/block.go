package pcapng

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// Types of blocks.
const (
	TypeInterface  = 1
	TypeOldPacket  = 2 // obsolete, but still found in files
	TypeSimple     = 3 // a packet without a time
	TypeStatistics = 5
	TypePacket     = 6
	TypeSection    = 0x0a0d0d0a

	typeNames        = 4
	typeJournal      = 9
	typeSecrets      = 10
	typeCustom       = 0xbad      // a program that changes a file may keep it
	typeCustomNoCopy = 0x40000bad // a program that changes a file should drop it
)

// Option codes. Each type of block has its own codes, except optComment and opt_endofopt (0), which
// all share.
const (
	optComment = 1

	shbHardware = 2
	shbOS       = 3
	shbUserAppl = 4

	ifName        = 2
	ifDescription = 3
	ifIPv4Addr    = 4
	ifMACAddr     = 6
	ifSpeed       = 8
	ifTSResol     = 9
	ifTZone       = 10
	ifFilter      = 11
	ifOS          = 12
	ifTSOffset    = 14
	ifHardware    = 15
	ifTxSpeed     = 16
	ifRxSpeed     = 17

	epbFlags     = 2
	epbHash      = 3
	epbDropCount = 4
	epbPacketID  = 5
	epbQueue     = 6
	epbVerdict   = 7

	nameOfIPv4 = 1 // records, not options
	nameOfIPv6 = 2

	isbStartTime    = 2
	isbEndTime      = 3
	isbIfRecv       = 4
	isbIfDrop       = 5
	isbFilterAccept = 6
	isbOSDrop       = 7
	isbUsrDeliv     = 8
)

// byteOrderMagic is written in a section header in the section's byte order.
const byteOrderMagic = 0x1a2b3c4d

// The first octet of an epb_verdict that comes from a program at tc, or at XDP.
const (
	verdictTC  = 1
	verdictXDP = 2
)

// hashToeplitz is the first octet of an epb_hash that the card computed for receive side scaling.
const hashToeplitz = 5

// maxOption is the largest length of an option, which has 16 bits.
const maxOption = 1<<16 - 1

var le = binary.LittleEndian

// appendHeader begins a block. Its length is 0 until finish writes it.
func appendHeader(b []byte, blockType uint32) []byte {
	return le.AppendUint64(b, uint64(blockType))
}

// finish ends the block that begins at start and whose options begin at options: it appends
// opt_endofopt if there are any options, and writes both lengths.
func finish(b []byte, start, options int) []byte {
	if len(b) > options {
		b = le.AppendUint32(b, 0)
	}
	n := uint32(len(b) - start + 4)
	le.PutUint32(b[start+4:], n)
	return le.AppendUint32(b, n)
}

// grow makes room for n more bytes. It is small enough to be inlined, so that it costs only a
// comparison if there is room.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		b = slices.Grow(b, n)
	}
	return b
}

// pad pads n bytes to a multiple of 4. It appends four zeros and drops the excess: that is a single
// store, while appending up to three bytes would be a call.
func pad(b []byte, n int) []byte {
	end := len(b) + -n&3
	return le.AppendUint32(b, 0)[:end]
}

func appendOption32(b []byte, code uint16, v uint32) []byte {
	return le.AppendUint64(b, uint64(code)|4<<16|uint64(v)<<32)
}

func appendOption64(b []byte, code uint16, v uint64) []byte {
	return le.AppendUint64(le.AppendUint32(b, uint32(code)|8<<16), v)
}

// appendTime appends a time in the format of packets and statistics. In either byte order, the
// upper half comes first.
func appendTime(b []byte, ns uint64) []byte {
	return le.AppendUint64(b, ns>>32|ns<<32)
}

func appendString(b []byte, code uint16, s string) []byte {
	if s == "" {
		return b
	}
	s = text(s, maxOption)
	b = le.AppendUint32(b, uint32(code)|uint32(len(s))<<16)
	return pad(append(b, s...), len(s))
}

// The first octet of an if_filter is the type of the filter.
const (
	filterExpression = 0 // for pcap-filter(7)
	filterProgram    = 1 // classic BPF
)

func appendFilter(b []byte, s string) []byte {
	s = text(s, maxOption-1)
	b = le.AppendUint32(b, ifFilter|uint32(1+len(s))<<16)
	b = append(b, filterExpression)
	return pad(append(b, s...), 1+len(s))
}

// appendFilterProgram appends an if_filter with a program: struct bpf_insn for each instruction. A
// program longer than maxOption is omitted.
func appendFilterProgram(b []byte, program []Instruction) []byte {
	n := 1 + 8*len(program)
	if n > maxOption {
		return b
	}
	b = le.AppendUint32(b, ifFilter|uint32(n)<<16)
	b = append(b, filterProgram)
	for _, i := range program {
		b = append(le.AppendUint16(b, i.Op), i.Jt, i.Jf)
		b = le.AppendUint32(b, i.K)
	}
	return pad(b, n)
}

// text returns s as valid UTF-8 of at most max bytes, cut between characters.
func text(s string, max int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= max {
		return s
	}
	for !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}
