package pcapng

// Sizes of a template's blocks, in bytes.
const (
	headSize = 28 // before the packet's bytes
	copySize = 64 // of a packet that Append copies at once

	// The options, opt_endofopt and the second length.
	withID      = 28
	withQueue   = 36 // id and queue
	withVerdict = 52 // id, queue and verdict

	roomSize = headSize + copySize + withVerdict
)

// A Template has the common values of the packets of one interface, so that most of their blocks
// are a few stores to fixed offsets.
type Template struct {
	number    uint64 // number of the interface
	direction uint32
	mac       uint64 // the address as `address` loads it from a packet, or noMAC
	fields    Fields
	options   int // withID, withQueue or withVerdict
}

// NewTemplate returns a template for packets that have an id and, optionally, a queue, or a queue
// and a verdict. direction is Inbound or Outbound. mac is the address of the interface; nil =
// unknown.
func NewTemplate(number uint32, hasQueue, hasVerdict bool, direction uint32, mac []byte) *Template {
	t := &Template{number: uint64(number), fields: HasID, options: withID, direction: direction, mac: noMAC}
	switch {
	case hasVerdict:
		t.fields, t.options = HasID|HasQueue|HasVerdict, withVerdict
	case hasQueue:
		t.fields, t.options = HasID|HasQueue, withQueue
	}
	if len(mac) == 6 {
		t.mac = address(append(mac[:6:6], 0, 0))
	}
	return t
}

// address returns the MAC address in the first 6 of 8 bytes.
func address(b []byte) uint64 { return le.Uint64(b) & broadcast }

// Addresses as returned by `address`: the first octet is the lowest byte.
const (
	broadcast = 1<<48 - 1
	group     = 1       // the bit of multicast addresses
	noMAC     = 1 << 48 // the interface's address is unknown; larger than any address
)

// flags returns the epb_flags of a packet with a destination address. A sent packet to a single
// station is Unicast, because Promiscuous describes only received packets.
func (t *Template) flags(to uint64) uint32 {
	switch {
	case to == broadcast:
		return t.direction | Broadcast
	case to&group != 0:
		return t.direction | Multicast
	case to == t.mac || t.direction == Outbound:
		return t.direction | Unicast
	case t.mac == noMAC:
		return t.direction
	}
	return t.direction | Promiscuous
}

// flagsOf returns the epb_flags of a packet of any length. It omits the reception type if the
// packet is truncated within its destination address.
func (t *Template) flagsOf(data []byte) uint32 {
	if len(data) < 6 {
		return t.direction
	}
	var to [8]byte
	copy(to[:6], data)
	return t.flags(address(to[:]))
}

// Append appends the block of a packet that has no other fields, as most packets. The block equals
// that of AppendPacket with the same values and the template's. Values that the template's Fields
// do not have are omitted. It is called for every packet, so it is fast for short ones: it writes
// all values to fixed offsets and calls no function. For that it copies copySize bytes, if data has
// that capacity, and overwrites the excess with the options.
func (t *Template) Append(b, data []byte, time, id uint64, wireLen, queue, verdict uint32) []byte {
	start, n := len(b), len(data)
	if n < 8 || n > copySize || cap(data) < copySize || cap(b)-start < roomSize {
		return t.AppendPacket(b, &Packet{Time: time, Data: data, WireLen: wireLen, ID: id, Queue: queue, Verdict: verdict})
	}
	kept := (n + 3) &^ 3 // with padding
	total := headSize + kept + t.options
	to, from := (*[roomSize]byte)(b[start:start+roomSize]), (*[copySize]byte)(data[:copySize])
	le.PutUint64(to[0:], TypePacket|uint64(total)<<32)
	le.PutUint64(to[8:], t.number|time>>32<<32)
	le.PutUint64(to[16:], uint64(uint32(time))|uint64(n)<<32)
	le.PutUint32(to[24:], wireLen)
	for i := 0; i < copySize; i += 32 {
		v, w, x, y := le.Uint64(from[i:]), le.Uint64(from[i+8:]), le.Uint64(from[i+16:]), le.Uint64(from[i+24:])
		le.PutUint64(to[headSize+i:], v)
		le.PutUint64(to[headSize+i+8:], w)
		le.PutUint64(to[headSize+i+16:], x)
		le.PutUint64(to[headSize+i+24:], y)
	}
	for i := n; i < kept; i++ {
		to[headSize+i] = 0
	}
	options := (*[withVerdict]byte)(to[headSize+kept:])
	le.PutUint64(options[0:], epbFlags|4<<16|uint64(t.flags(address(from[:])))<<32)
	le.PutUint64(options[8:], epbPacketID|8<<16|id<<32)
	switch t.options {
	case withID:
		le.PutUint64(options[16:], id>>32)
		le.PutUint32(options[withID-4:], uint32(total))
	case withQueue:
		le.PutUint64(options[16:], id>>32|(epbQueue|4<<16)<<32)
		le.PutUint64(options[24:], uint64(queue))
		le.PutUint32(options[withQueue-4:], uint32(total))
	case withVerdict:
		le.PutUint64(options[16:], id>>32|(epbQueue|4<<16)<<32)
		le.PutUint64(options[24:], uint64(queue)|(epbVerdict|9<<16)<<32)
		le.PutUint64(options[32:], verdictXDP|uint64(verdict)<<8)
		le.PutUint64(options[40:], 0)
		le.PutUint32(options[withVerdict-4:], uint32(total))
	}
	return b[:start+total]
}

// AppendPacket appends a packet with more fields. It replaces Interface, Flags and Fields by the
// template's, except for HasHash.
func (t *Template) AppendPacket(b []byte, p *Packet) []byte {
	p.Interface, p.Flags = uint32(t.number), t.flagsOf(p.Data)
	p.Fields = p.Fields&HasHash | t.fields
	return AppendPacket(b, p)
}
