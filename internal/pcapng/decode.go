package pcapng

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net"
	"slices"
)

// HeaderSize is the number of bytes of a block that BlockLength needs.
const HeaderSize = 12

// MaxBlock is the longest block that is read, in bytes: libpcap's limit, which bounds the memory
// for a block with a damaged length. Wireshark accepts blocks of up to 134,348,832 bytes.
const MaxBlock = 16 << 20

// Ethernet is the LINKTYPE_ of Ethernet frames.
const Ethernet = 1

// IsLasting reports whether a block applies to packets that come after it, anywhere in the section:
// names of addresses, or secrets for decryption.
func (b Block) IsLasting() bool { return b.Type == typeNames || b.Type == typeSecrets }

// A Block is one block as it is in a file.
type Block struct {
	Type uint32
	Big  bool   // its section has big-endian numbers
	Raw  []byte // all of it, from its type to the second length
}

// IsSection reports whether a file or block that begins with b is a pcapng section.
func IsSection(b []byte) bool { return len(b) >= 4 && le.Uint32(b) == TypeSection }

// BlockLength returns the length in bytes of the block that begins with the HeaderSize bytes in b,
// and whether its numbers are big-endian. A section header contains its byte order; for other
// blocks the caller passes the byte order of their section. It returns an error if the header is
// invalid.
func BlockLength(b []byte, big bool) (length int, isBig bool, err error) {
	if IsSection(b) {
		switch {
		case le.Uint32(b[8:]) == byteOrderMagic:
			big = false
		case binary.BigEndian.Uint32(b[8:]) == byteOrderMagic:
			big = true
		default:
			return 0, false, fmt.Errorf("a section has no byte order: %#x", le.Uint32(b[8:]))
		}
	}
	switch n := u32(b[4:], big); {
	case n < HeaderSize || n%4 != 0:
		return 0, false, fmt.Errorf("a block's length is %d bytes", n)
	case n > MaxBlock:
		return 0, false, fmt.Errorf("a block's length is %d bytes, more than a block can have", n)
	default:
		return int(n), big, nil
	}
}

// ParseBlock checks the lengths of the block in raw. BlockLength has found the length of raw and
// its byte order. The Block refers to raw and does not copy it.
func ParseBlock(raw []byte, big bool) (Block, error) {
	b := Block{Type: u32(raw, big), Big: big, Raw: raw}
	if end := b.u32(len(raw) - 4); int(end) != len(raw) {
		return b, fmt.Errorf("a block has two lengths, %d and %d bytes", len(raw), end)
	}
	if len(b.body()) < minBody(b.Type) {
		return b, fmt.Errorf("a block of type %d has only %d bytes", b.Type, len(raw))
	}
	if b.Type == TypeSection && u16(raw[12:], big) != 1 {
		return b, fmt.Errorf("a section has version %d of the format, only 1 is known", u16(raw[12:], big))
	}
	return b, nil
}

// minBody returns the minimum size in bytes of the body of a type of block.
func minBody(blockType uint32) int {
	switch blockType {
	case TypePacket, TypeOldPacket:
		return 20
	case TypeSection:
		return 16
	case TypeStatistics:
		return 12
	case TypeInterface:
		return 8
	case TypeSimple:
		return 4
	}
	return 0
}

func u16(b []byte, big bool) uint16 {
	if big {
		return binary.BigEndian.Uint16(b)
	}
	return le.Uint16(b)
}

func u32(b []byte, big bool) uint32 {
	if big {
		return binary.BigEndian.Uint32(b)
	}
	return le.Uint32(b)
}

func u64(b []byte, big bool) uint64 {
	if big {
		return binary.BigEndian.Uint64(b)
	}
	return le.Uint64(b)
}

func (b *Block) u16(at int) uint16 { return u16(b.Raw[at:], b.Big) }
func (b *Block) u32(at int) uint32 { return u32(b.Raw[at:], b.Big) }

// timeOf reads a time. In either byte order, the upper half comes first.
func timeOf(b []byte, big bool) uint64 { return uint64(u32(b, big))<<32 | uint64(u32(b[4:], big)) }

// time reads the time at an offset in Raw.
func (b *Block) time(at int) uint64 { return timeOf(b.Raw[at:], b.Big) }

// body returns the bytes between the first length and the second.
func (b *Block) body() []byte { return b.Raw[8 : len(b.Raw)-4] }

// options returns the block's options from an offset in Raw on.
func (b *Block) options(at int) options {
	return options{b.Raw[min(at, len(b.Raw)-4) : len(b.Raw)-4], b.Big}
}

// options are the options that next has not returned yet.
type options struct {
	b   []byte // from the next option to the end of the block's options
	big bool
}

// next returns the code and value of the next option. It returns false at the end, or if the rest
// is not an option.
func (o *options) next() (code uint16, value []byte, ok bool) {
	if len(o.b) < 4 {
		return 0, nil, false
	}
	code, n := u16(o.b, o.big), int(u16(o.b[2:], o.big))
	if code == 0 || 4+n > len(o.b) {
		return 0, nil, false
	}
	value = o.b[4 : 4+n]
	o.b = o.b[min(len(o.b), 4+n+-n&3):]
	return code, value, true
}

// optionsAt returns the offset in Raw at which the options of a block begin; len(Raw) = it has no
// options.
func (b *Block) optionsAt() int {
	switch b.Type {
	case TypeSection:
		return 24
	case TypeInterface:
		return 16
	case TypeStatistics:
		return 20
	case TypePacket, TypeOldPacket:
		return 28 + padded(b.u32(20))
	case typeSecrets:
		if len(b.body()) >= 8 {
			return 16 + padded(b.u32(12))
		}
	case typeNames:
		return b.namesEnd()
	}
	return len(b.Raw)
}

// padded rounds a length up to a multiple of 4. It does not overflow.
func padded(n uint32) int { return int((uint64(n) + 3) &^ 3) }

// namesEnd returns the offset at which the records of a name resolution block end.
func (b *Block) namesEnd() int {
	at := 8
	for at+4 <= len(b.Raw)-4 {
		kind, n := b.u16(at), b.u16(at+2)
		at += 4 + padded(uint32(n))
		if kind == 0 {
			return at
		}
	}
	return len(b.Raw)
}

// Comments returns copies of the opt_comment options of the block.
func (b *Block) Comments() (comments []string) {
	for text := range b.EachComment() {
		comments = append(comments, string(text))
	}
	return comments
}

// EachComment returns the opt_comment options of the block, as parts of Raw.
func (b *Block) EachComment() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		o := b.options(b.optionsAt())
		for code, value, ok := o.next(); ok; code, value, ok = o.next() {
			if code == optComment && !yield(value) {
				return
			}
		}
	}
}

// parseSection reads the texts of a Section Header Block. Comment is the first of its comments.
func parseSection(b Block) (s Section) {
	o := b.options(b.optionsAt())
	for code, value, ok := o.next(); ok; code, value, ok = o.next() {
		switch text := string(value); {
		case code == shbHardware:
			s.Hardware = text
		case code == shbOS:
			s.OS = text
		case code == shbUserAppl:
			s.Application = text
		case code == optComment && s.Comment == "":
			s.Comment = text
		}
	}
	return s
}

// ParseInterface reads the link type, the snapshot length, the name, the description and the
// netmask of an Interface Description Block, and the Clock of its packets' times.
func ParseInterface(b Block) (Interface, Clock) {
	i := Interface{LinkType: b.u16(8), SnapLen: b.u32(12)}
	resolution, offset := byte(6), int64(0)
	o := b.options(b.optionsAt())
	for code, value, ok := o.next(); ok; code, value, ok = o.next() {
		switch {
		case code == ifName:
			i.Name = string(value)
		case code == ifDescription:
			i.Description = string(value)
		case code == ifIPv4Addr && len(value) == 8 && i.Netmask == nil:
			// 0.0.0.0, and a mask whose bits have gaps, is no network's. Size returns 0 for both.
			mask := net.IPMask(value[4:])
			if ones, _ := mask.Size(); ones > 0 {
				i.Netmask = slices.Clone(mask)
			}
		case code == ifFilter && len(value) > 0 && value[0] == filterExpression:
			i.Filter = string(value[1:])
		case code == ifTSResol && len(value) == 1:
			resolution = value[0]
		case code == ifTSOffset && len(value) == 8:
			offset = int64(u64(value, b.Big))
		}
	}
	return i, NewClock(resolution, offset)
}

// ParseStatistics reads an Interface Statistics Block. The times are in units of the interface's
// Clock. Comments are not read.
func ParseStatistics(b Block) (s Statistics, known Counters) {
	s.Interface, s.Time = b.u32(8), b.time(12)
	o := b.options(b.optionsAt())
	for code, value, ok := o.next(); ok; code, value, ok = o.next() {
		if len(value) != 8 {
			continue
		}
		v := u64(value, b.Big)
		switch code {
		case isbStartTime:
			s.Start = timeOf(value, b.Big)
		case isbEndTime:
			s.End = timeOf(value, b.Big)
		case isbIfRecv:
			s.Received, known = v, known|HasReceived
		case isbIfDrop:
			s.Dropped, known = v, known|HasDropped
		case isbFilterAccept:
			s.Accepted, known = v, known|HasAccepted
		case isbOSDrop:
			s.OSDropped, known = v, known|HasOSDropped
		case isbUsrDeliv:
			s.Delivered, known = v, known|HasDelivered
		}
	}
	return s, known
}
