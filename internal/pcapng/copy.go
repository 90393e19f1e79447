package pcapng

import "slices"

// Copying a block keeps all its options, even those that this package does not know.

// AppendCopy appends a block unchanged except that its numbers become little-endian. For a
// big-endian block of an unknown type it appends nothing and returns false, because it does not
// know where the block's numbers are.
//
// In big-endian blocks, the values of options that this package does not know are copied unchanged.
func AppendCopy(dst []byte, b Block) ([]byte, bool) {
	if !b.Big {
		return append(dst, b.Raw...), true
	}
	if !b.canTurn() {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, b.Raw...)
	t := turner{raw: dst[start:]}
	t.block(b)
	return dst, true
}

// Renumber changes the interface number in a little-endian block with a packet or statistics. It
// returns false if the block has no room for the number.
func Renumber(raw []byte, to uint32) bool {
	switch le.Uint32(raw) {
	case blockPacket, blockStatistics:
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

// EndOpenly sets the length in a section header to unknown, because a copy may omit blocks.
func EndOpenly(raw []byte) {
	for i := range 8 {
		raw[16+i] = 0xff
	}
}

// AppendMergedSection appends a Section Header Block for the packets of several sections. It has
// the other options of the first section and the comments of all. If a section's other options
// differ from the first's, a comment with these comes before its own comments.
func AppendMergedSection(b []byte, names []string, sections []Block) []byte {
	first := ParseSection(sections[0])
	start := len(b)
	b = AppendSection(b, &Section{})
	b = b[:len(b)-4] // the options come before the final length
	options := len(b)
	for i, one := range sections {
		if own := ParseSection(one); i > 0 && (own.Hardware != first.Hardware || own.OS != first.OS || own.Application != first.Application) {
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

// canTurn tells whether it is known where the block's numbers are.
func (b *Block) canTurn() bool {
	return slices.Contains([]uint32{blockSection, blockInterface, TypeOldPacket, TypeSimple, typeNames, blockStatistics, blockPacket,
		typeJournal, typeSecrets, typeCustom, typeCustomKeep}, b.Type)
}

// A turner converts the numbers of a big-endian block to little-endian.
type turner struct{ raw []byte }

func (t turner) turn(at, size int) {
	if at >= 0 && at+size <= len(t.raw) {
		slices.Reverse(t.raw[at : at+size])
	}
}

// turns turns numbers of these sizes, one after the other.
func (t turner) turns(at int, sizes ...int) {
	for _, size := range sizes {
		t.turn(at, size)
		at += size
	}
}

// block turns the numbers of a block. b is the unchanged original.
func (t turner) block(b Block) {
	t.turns(0, 4, 4)
	t.turn(len(t.raw)-4, 4)
	switch b.Type {
	case blockSection:
		t.turns(8, 4, 2, 2, 8)
	case blockInterface:
		t.turns(8, 2, 2, 4)
	case TypeOldPacket:
		t.turns(8, 2, 2, 4, 4, 4, 4)
	case TypeSimple:
		t.turn(8, 4)
	case blockStatistics:
		t.turns(8, 4, 4, 4)
	case blockPacket:
		t.turns(8, 4, 4, 4, 4, 4)
	case typeSecrets:
		t.turns(8, 4, 4)
	case typeCustom, typeCustomKeep:
		t.turn(8, 4)
	case typeNames:
		t.names(b)
	}
	t.options(b)
}

func (t turner) names(b Block) {
	for at := 8; at+4 <= len(b.Raw)-4 && at < b.namesEnd(); at += 4 + padded(uint32(b.u16(at+2))) {
		t.turns(at, 2, 2)
	}
}

func (t turner) options(b Block) {
	o := b.options(b.optionsAt())
	for {
		at := len(b.Raw) - 4 - len(o.b)
		code, value, ok := o.next()
		if !ok {
			return // opt_endofopt is 0 in either byte order
		}
		t.turns(at, 2, 2)
		t.option(b.Type, code, value, at+4)
	}
}

// option turns the value of an option at an offset.
func (t turner) option(blockType uint32, code uint16, value []byte, at int) {
	const customText, customBytes, customTextKeep, customBytesKeep = 2988, 2989, 19372, 19373
	switch code {
	case customText, customBytes, customTextKeep, customBytesKeep:
		t.turn(at, 4) // the enterprise number
		return
	}
	switch blockType {
	case blockInterface:
		switch code {
		case ifSpeed, ifTSOffset, ifTxSpeed, ifRxSpeed, ifTZone:
			t.turn(at, len(value))
		case ifFilter:
			if len(value) > 0 && value[0] == filterProgram {
				for i := 1; i+8 <= len(value); i += 8 {
					t.turn(at+i, 2)
					t.turn(at+i+4, 4)
				}
			}
		}
	case blockPacket:
		switch code {
		case epbFlags, epbDropCount, epbPacketID, epbQueue:
			t.turn(at, len(value))
		case epbHash:
			if len(value) == 5 && value[0] == hashToeplitz { // the others are bytes
				t.turn(at+1, 4)
			}
		case epbVerdict:
			if len(value) == 9 && value[0] != 0 { // 0 is the hardware's, in any format
				t.turn(at+1, 8)
			}
		}
	case TypeOldPacket:
		if code == epbFlags {
			t.turn(at, len(value))
		}
	case blockStatistics:
		switch code {
		case isbStartTime, isbEndTime:
			t.turns(at, 4, 4)
		case isbIfRecv, isbIfDrop, isbFilterAccept, isbOSDrop, isbUsrDeliv:
			t.turn(at, len(value))
		}
	}
}
