package pcapng

import (
	"encoding/binary"
	"slices"
)

// AppendCopy appends a block with all its options, even unknown ones, unchanged except that its
// numbers become little-endian. The values of unknown options stay as they are. For a big-endian
// block of an unknown type it returns false and dst unchanged, because the positions of the block's
// numbers are unknown.
func AppendCopy(dst []byte, b Block) ([]byte, bool) {
	if !b.Big {
		return append(dst, b.Raw...), true
	}
	if _, ok := headNumbers[b.Type]; !ok {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, b.Raw...)
	swapper{dst[start:]}.block(b)
	return dst, true
}

// Renumber changes the interface number in a little-endian block with a packet or statistics. It
// returns false if the block has no room for the number.
func Renumber(raw []byte, to uint32) bool {
	switch le.Uint32(raw) {
	case TypePacket, TypeStatistics:
		le.PutUint32(raw[8:], to)
		return true
	case TypeOldPacket:
		le.PutUint16(raw[8:], uint16(to))
		return to <= 0xffff
	}
	return to == 0
}

// Unlimit sets the snapshot length in a little-endian block of an interface to 0: no limit.
func Unlimit(raw []byte) { le.PutUint32(raw[12:], 0) }

// PrefixName returns a copy of the block of an interface whose name has a prefix. Of a big-endian
// block it returns the block itself.
func PrefixName(b Block, prefix string) Block {
	if b.Big {
		return b
	}
	at := b.optionsAt()
	raw, options := slices.Clone(b.Raw[:min(at, len(b.Raw)-4)]), b.options(at)
	for {
		code, value, ok := options.next()
		if !ok {
			break
		}
		if code == ifName && len(prefix)+len(value) <= maxOption {
			value = append([]byte(prefix), value...)
		}
		raw = le.AppendUint32(raw, uint32(code)|uint32(len(value))<<16)
		raw = pad(append(raw, value...), len(value))
	}
	b.Raw = finish(raw, 0, at)
	return b
}

// EndOpenly sets the length in a section header to -1, unknown, because a copy may omit blocks.
func EndOpenly(raw []byte) { le.PutUint64(raw[16:], 1<<64-1) }

// AppendMergedSection appends a Section Header Block for the packets of several sections. It has
// the other options of the first section and the comments of all. If a section's other options
// differ from the first's, a comment with these comes before its own comments.
func AppendMergedSection(b []byte, names []string, sections []Block) []byte {
	first := parseSection(sections[0])
	start := len(b)
	b = AppendSection(b, &Section{})
	b = b[:len(b)-4] // the options come before the final length
	options := len(b)
	for i, one := range sections {
		if own := parseSection(one); i > 0 && (own.Hardware != first.Hardware || own.OS != first.OS || own.Application != first.Application) {
			b = appendString(b, optComment, names[i]+": "+own.Application+" on "+own.OS+", "+own.Hardware)
		}
		for _, c := range one.Comments() {
			b = appendString(b, optComment, c)
		}
	}
	b = appendString(b, shbHardware, first.Hardware)
	b = appendString(b, shbOS, first.OS)
	b = appendString(b, shbUserAppl, first.Application)
	return finish(b, start, options)
}

// headNumbers has the sizes in bytes of the numbers at the beginning of a block's body, for the
// types of blocks that can be converted.
var headNumbers = map[uint32][]int{
	TypeSection:      {4, 2, 2, 8},
	TypeInterface:    {2, 2, 4},
	TypeOldPacket:    {2, 2, 4, 4, 4, 4},
	TypeSimple:       {4},
	TypeStatistics:   {4, 4, 4},
	TypePacket:       {4, 4, 4, 4, 4},
	typeNames:        {}, // but see swapper.names
	typeJournal:      {},
	typeSecrets:      {4, 4},
	typeCustom:       {4},
	typeCustomNoCopy: {4},
}

// numberOptions has the codes of options whose value is one number, by the type of block.
var numberOptions = map[uint32][]uint16{
	TypeInterface:  {ifSpeed, ifTSOffset, ifTxSpeed, ifRxSpeed, ifTZone},
	TypePacket:     {epbFlags, epbDropCount, epbPacketID, epbQueue},
	TypeOldPacket:  {epbFlags},
	TypeStatistics: {isbIfRecv, isbIfDrop, isbFilterAccept, isbOSDrop, isbUsrDeliv},
}

// customOptions are options of any block, with text or bytes after an enterprise number. A program
// that changes a file should drop the last two.
var customOptions = []uint16{2988, 2989, 19372, 19373}

// A swapper converts the numbers of a big-endian block to little-endian, in place.
type swapper struct{ raw []byte }

// block swaps the numbers of a block. b is the unchanged original.
func (t swapper) block(b Block) {
	t.swapAll(0, 4, 4)
	t.swap(len(t.raw)-4, 4)
	t.swapAll(8, headNumbers[b.Type]...)
	if b.Type == typeNames {
		t.names(b)
	}
	t.options(b)
}

func (t swapper) names(b Block) {
	for at := 8; at+4 <= len(b.Raw)-4 && at < b.namesEnd(); at += 4 + padded(uint32(b.u16(at+2))) {
		t.swapAll(at, 2, 2)
	}
}

func (t swapper) options(b Block) {
	o := b.options(b.optionsAt())
	for {
		at := len(b.Raw) - 4 - len(o.b)
		code, value, ok := o.next()
		if !ok {
			return // opt_endofopt is 0 in either byte order
		}
		t.swapAll(at, 2, 2)
		t.option(b.Type, code, value, at+4)
	}
}

// option swaps the value of an option at an offset.
func (t swapper) option(blockType uint32, code uint16, value []byte, at int) {
	type option struct {
		block uint32
		code  uint16
	}
	switch is := (option{blockType, code}); {
	case slices.Contains(customOptions, code):
		t.swap(at, 4)
	case slices.Contains(numberOptions[blockType], code):
		t.swap(at, len(value))
	case is == option{TypeInterface, ifFilter} && len(value) > 0 && value[0] == filterProgram:
		for i := 1; i+8 <= len(value); i += 8 {
			t.swap(at+i, 2)
			t.swap(at+i+4, 4)
		}
	case is == option{TypePacket, epbHash} && len(value) == 5 && value[0] == hashToeplitz:
		t.swap(at+1, 4)
	case is == option{TypePacket, epbVerdict} && len(value) == 9 && value[0] != 0: // 0 is the hardware's
		t.swap(at+1, 8)
	case is == option{TypeStatistics, isbStartTime}, is == option{TypeStatistics, isbEndTime}:
		t.swapAll(at, 4, 4)
	}
}

// swapAll swaps numbers of these sizes, one after the other.
func (t swapper) swapAll(at int, sizes ...int) {
	for _, size := range sizes {
		t.swap(at, size)
		at += size
	}
}

// swap reverses the bytes of the number of this size at an offset, unless the block ends before.
func (t swapper) swap(at, size int) {
	if at >= 0 && at+size <= len(t.raw) {
		slices.Reverse(t.raw[at : at+size])
	}
}

// ConvertTimes replaces the times of a packet or of statistics, in units of the interface's Clock.
func (b *Block) ConvertTimes(convert func(uint64) uint64) {
	replace := func(at []byte) { putTime(at, convert(timeOf(at, b.Big)), b.Big) }
	replace(b.Raw[12:])
	if b.Type != TypeStatistics {
		return
	}
	o := b.options(b.optionsAt())
	for code, value, ok := o.next(); ok; code, value, ok = o.next() {
		if (code == isbStartTime || code == isbEndTime) && len(value) == 8 {
			replace(value)
		}
	}
}

func putTime(b []byte, stamp uint64, big bool) {
	order := binary.ByteOrder(le)
	if big {
		order = binary.BigEndian
	}
	order.PutUint32(b, uint32(stamp>>32))
	order.PutUint32(b[4:], uint32(stamp))
}
