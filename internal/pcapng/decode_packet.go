package pcapng

import "errors"

var errShort = errors.New("a packet is longer than its block")

// ParsePacket reads a packet of any of the three types of blocks. Data is a part of the block's
// Raw. Time is in units of the interface's Clock. If an option occurs several times, the last one
// takes precedence. Of the comments p gets only the Remarks, and the first of each kind. snapLen is
// that of the section's first interface: a Simple Packet Block is truncated to it.
func ParsePacket(b Block, snapLen uint32, p *Packet) error {
	*p = Packet{}
	if b.Type == TypePacket && !b.Big {
		return p.parse(b.Raw)
	}
	var at, n int
	switch b.Type {
	case TypeSimple:
		p.WireLen = b.u32(8)
		kept := p.WireLen
		if snapLen != 0 {
			kept = min(kept, snapLen)
		}
		at, n = 12, int(kept)
	case TypeOldPacket:
		p.Interface = uint32(b.u16(8))
		if drops := b.u16(10); drops != 0xffff { // 0xffff = unknown
			p.Dropped = uint64(drops)
		}
		p.Time, p.WireLen, at, n = b.time(12), b.u32(24), 28, int(b.u32(20))
	default:
		p.Interface = b.u32(8)
		p.Time, p.WireLen, at, n = b.time(12), b.u32(24), 28, int(b.u32(20))
	}
	if n > len(b.Raw)-4-at {
		return errShort
	}
	p.Data = b.Raw[at : at+n : at+n]
	if b.Type != TypeSimple {
		p.parseOptions(b.options(at + padded(uint32(n))))
	}
	return nil
}

// parse reads a little-endian Enhanced Packet Block, the block of nearly all packets.
func (p *Packet) parse(raw []byte) error {
	const at = 28 // of the data
	head := raw[8:at:at]
	p.Interface = le.Uint32(head)
	p.Time = uint64(le.Uint32(head[4:]))<<32 | uint64(le.Uint32(head[8:]))
	n := uint64(le.Uint32(head[12:]))
	p.WireLen = le.Uint32(head[16:])
	end := uint64(len(raw) - 4)
	if at+n > end {
		return errShort
	}
	p.Data = raw[at : at+n : at+n]
	if rest := p.parseKnown(raw[min(at+(n+3)&^3, end):end]); len(rest) > 0 {
		p.parseOptions(options{rest, false})
	}
	return nil
}

// parseKnown reads options of a little-endian block up to the first unusual one, and returns the
// rest. It compares code and length of an option together, in one comparison.
func (p *Packet) parseKnown(b []byte) (rest []byte) {
	for len(b) >= 8 {
		switch le.Uint32(b) {
		case epbFlags | 4<<16:
			p.Flags, b = le.Uint32(b[4:]), b[8:]
			continue
		case epbQueue | 4<<16:
			p.Queue, p.Fields, b = le.Uint32(b[4:]), p.Fields|HasQueue, b[8:]
			continue
		case epbPacketID | 8<<16:
			if len(b) >= 12 {
				p.ID, p.Fields, b = le.Uint64(b[4:]), p.Fields|HasID, b[12:]
				continue
			}
		case epbDropCount | 8<<16:
			if len(b) >= 12 {
				p.Dropped, b = le.Uint64(b[4:]), b[12:]
				continue
			}
		case epbHash | 5<<16:
			if len(b) >= 12 && b[4] == hashToeplitz {
				p.Hash, p.Fields, b = le.Uint32(b[5:]), p.Fields|HasHash, b[12:]
				continue
			}
		case epbVerdict | 9<<16:
			if len(b) >= 16 && b[4] == verdictXDP {
				p.Verdict, p.Fields, b = le.Uint32(b[5:]), p.Fields|HasVerdict, b[16:]
				continue
			}
		}
		return b
	}
	if len(b) == 4 && le.Uint16(b) == 0 { // opt_endofopt
		return nil
	}
	return b
}

func (p *Packet) parseOptions(o options) {
	sentBy := uint32(0) // the verdict that Outlet belongs to
	for code, value, ok := o.next(); ok; code, value, ok = o.next() {
		switch {
		case code == epbFlags && len(value) == 4:
			p.Flags = u32(value, o.big)
		case code == epbDropCount && len(value) == 8:
			p.Dropped = u64(value, o.big)
		case code == epbPacketID && len(value) == 8:
			p.ID, p.Fields = u64(value, o.big), p.Fields|HasID
		case code == epbQueue && len(value) == 4:
			p.Queue, p.Fields = u32(value, o.big), p.Fields|HasQueue
		case code == epbHash && len(value) == 5 && value[0] == hashToeplitz:
			p.Hash, p.Fields = u32(value[1:], o.big), p.Fields|HasHash
		case code == epbVerdict && len(value) == 9 && value[0] == verdictXDP:
			p.Verdict, p.Fields = uint32(u64(value[1:], o.big)), p.Fields|HasVerdict
		case code == epbVerdict && len(value) == 9 && value[0] == verdictTC:
			p.Verdict, p.VerdictKind, p.Fields = uint32(u64(value[1:], o.big)), TCVerdict, p.Fields|HasVerdict
		case code == optComment:
			if number, ok := parseReturned(value); ok && p.Fields&HasVerdict == 0 {
				p.Verdict, p.VerdictKind, p.Fields = uint32(number), PlainNumber, p.Fields|HasVerdict
			}
			if verdict := p.Remarks.parse(value); verdict != 0 {
				sentBy = verdict
			}
		}
	}
	if p.Fields&HasVerdict == 0 || p.Verdict != sentBy {
		p.Outlet = nil
	}
}
