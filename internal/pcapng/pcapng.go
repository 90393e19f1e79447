// Package pcapng encodes the blocks of a pcapng capture file (draft-ietf-opsawg-pcapng), and the
// packets of a classic pcap file (pcap.go).
//
// Every function appends one whole block to a byte slice and returns the longer slice, as the
// built-in append does. They allocate only to grow that slice, keep no reference to their arguments
// and have no state, so they may be called concurrently on different slices. Blocks are
// little-endian. Every time is in nanoseconds since the Unix epoch, which the if_tsresol of every
// interface declares.
//
// A file is a Section, then an Interface for each number used after it, then Names, then Packets,
// then Statistics.
//
// The option codes are from the tables of sections 4.1 (Section), 4.2 (Interface), 4.3 (Packet),
// 4.5 (Names) and 4.6 (Statistics).
package pcapng

import (
	"net"
	"net/netip"
	"strings"
)

// Section is a Section Header Block: the program that wrote the file, and its machine. An empty
// string is omitted. In this block as in the others, strings are UTF-8. A string of more than 65535
// bytes is truncated between characters, and bytes that are not UTF-8 become U+FFFD.
type Section struct {
	Hardware    string // shb_hardware: the machine
	OS          string // shb_os
	Application string // shb_userappl: name and version of the program
	Comment     string // opt_comment
}

// AppendSection appends s as a Section Header Block. Its section length is "unknown", because
// packets are written as they arrive.
func AppendSection(b []byte, s *Section) []byte {
	start := len(b)
	b = appendHeader(b, TypeSection)
	b = le.AppendUint32(b, byteOrderMagic)
	b = le.AppendUint32(b, 1)       // version 1.0
	b = le.AppendUint64(b, 1<<64-1) // section length
	options := len(b)
	b = appendString(b, optComment, s.Comment)
	b = appendString(b, shbHardware, s.Hardware)
	b = appendString(b, shbOS, s.OS)
	b = appendString(b, shbUserAppl, s.Application)
	return finish(b, start, options)
}

// Interface is an Interface Description Block. Other blocks refer to it by its position among the
// interfaces of its section, from 0. An empty string is omitted.
type Interface struct {
	Name        string           // if_name
	Description string           // if_description
	Hardware    string           // if_hardware: the driver
	Filter      string           // if_filter: a pcap-filter(7) expression
	Program     []Instruction    // if_filter, without Filter: a classic BPF program
	OS          string           // if_os
	Comment     string           // opt_comment
	MAC         net.HardwareAddr // if_MACaddr; omitted unless it has 6 bytes
	Netmask     net.IPMask       // of the first if_IPv4addr, only read; nil = unknown
	Speed       uint64           // if_speed in bit/s; 0 = unknown
	LinkType    uint16           // LINKTYPE_ number; 1 = Ethernet
	SnapLen     uint32           // bytes kept of a packet; 0 = no limit
}

// An Instruction is an instruction of a classic BPF program, with the fields of struct bpf_insn.
type Instruction struct {
	Op     uint16
	Jt, Jf uint8
	K      uint32
}

// AppendInterface appends i as an Interface Description Block.
func AppendInterface(b []byte, i *Interface) []byte {
	start := len(b)
	b = appendHeader(b, TypeInterface)
	b = le.AppendUint32(b, uint32(i.LinkType)) // and 16 reserved bits
	b = le.AppendUint32(b, i.SnapLen)
	options := len(b)
	b = appendString(b, optComment, i.Comment)
	b = appendString(b, ifName, i.Name)
	b = appendString(b, ifDescription, i.Description)
	if len(i.MAC) == 6 {
		b = le.AppendUint32(b, ifMACAddr|6<<16)
		b = pad(append(b, i.MAC...), 6)
	}
	if i.Speed != 0 {
		b = appendOption64(b, ifSpeed, i.Speed)
	}
	b = le.AppendUint64(b, ifTSResol|1<<16|9<<32) // 10^-9 s, padded
	switch {
	case i.Filter != "":
		b = appendFilter(b, i.Filter)
	case i.Program != nil:
		b = appendFilterProgram(b, i.Program)
	}
	b = appendString(b, ifOS, i.OS)
	b = appendString(b, ifHardware, i.Hardware)
	return finish(b, start, options)
}

// Name is an entry of a Name Resolution Block: the name that readers show for an address.
type Name struct {
	Address netip.Addr // an invalid address is omitted
	Name    string     // it ends before the first zero byte
}

// AppendNames appends a Name Resolution Block, unless there are no names.
func AppendNames(b []byte, names []Name) []byte {
	start := len(b)
	b = appendHeader(b, typeNames)
	records := len(b)
	for _, n := range names {
		kind, address := uint32(nameOfIPv4), n.Address.Unmap().AsSlice()
		switch len(address) {
		case 0: // invalid
			continue
		case 16:
			kind = nameOfIPv6
		}
		name, _, _ := strings.Cut(n.Name, "\x00")
		name = text(name, maxOption-len(address)-1)
		size := len(address) + len(name) + 1 // with the zero after the name
		b = le.AppendUint32(b, kind|uint32(size)<<16)
		b = append(append(append(b, address...), name...), 0)
		b = pad(b, size)
	}
	if len(b) == records {
		return b[:start]
	}
	b = le.AppendUint32(b, 0) // the end of the records
	return finish(b, start, len(b))
}

// Fields is a set of optional fields of a Packet: those that are known. A field is in it if its
// value 0 has a meaning, as for queue 0.
type Fields uint8

const (
	HasQueue Fields = 1 << iota
	HasID
	HasVerdict
	HasHash
)

// Packet is an Enhanced Packet Block.
type Packet struct {
	Interface uint32 // position of the interface in the section
	WireLen   uint32 // bytes on the wire, at least len(Data)
	Time      uint64 // ns since the Unix epoch
	Data      []byte // the bytes kept, copied
	Dropped   uint64 // epb_dropcount: lost since the previous packet on the same interface; 0 = omitted
	ID        uint64 // epb_packetid, with HasID: the same packet has the same number everywhere
	Queue     uint32 // epb_queue, with HasQueue
	Verdict   uint32 // epb_verdict, with HasVerdict: an XDP action, unless VerdictKind is another
	Hash      uint32 // epb_hash, with HasHash: the card's Toeplitz hash, as a number
	Flags     uint32 // epb_flags: a sum of Inbound or Outbound and a reception type; 0 = omitted
	Fields    Fields // a sum of HasQueue, HasID, HasVerdict, HasHash
	VerdictKind
	Comments []string // an opt_comment for each; ParsePacket does not set it: see Block.Comments
	Remarks           // an opt_comment for each remark, too
}

// A VerdictKind is the meaning of the number in Packet.Verdict.
type VerdictKind uint32

const (
	XDPVerdict  VerdictKind = iota // an XDP action
	TCVerdict                      // a verdict at tc, a signed number
	PlainNumber                    // a signed number; only a remark has it: see Remarks.IsReturned
)

// The direction of a packet, bits 0 and 1 of Packet.Flags.
const (
	Inbound  = 1
	Outbound = 2

	DirectionMask = 3
)

// The reception type of a packet, bits 2 to 4 of Packet.Flags.
const (
	Unicast     = 1 << 2 // to the interface's own address
	Multicast   = 2 << 2
	Broadcast   = 3 << 2
	Promiscuous = 4 << 2 // to another station: received only in promiscuous mode
)

// maxPacketOverhead is the maximum size in bytes of a Packet besides its data and its comments,
// which are rare: 28 bytes of head, 3 of padding, 68 of options, opt_endofopt and the second
// length. pad briefly writes one more byte, which the next option or length overwrites.
const maxPacketOverhead = 28 + 3 + 68 + 4 + 4

// AppendPacket appends p as an Enhanced Packet Block. It is called for every packet, so it grows
// the slice only once, and every option is one or two stores.
func AppendPacket(b []byte, p *Packet) []byte {
	start := len(b)
	b = grow(b, len(p.Data)+maxPacketOverhead)
	b = appendHeader(b, TypePacket)
	b = le.AppendUint64(b, uint64(p.Interface)|p.Time>>32<<32)
	b = le.AppendUint64(b, uint64(uint32(p.Time))|uint64(len(p.Data))<<32)
	b = le.AppendUint32(b, p.WireLen)
	b = pad(append(b, p.Data...), len(p.Data))
	options := len(b)
	for _, text := range p.Comments {
		b = appendString(b, optComment, text)
	}
	if !p.isEmpty() {
		b = p.Remarks.append(b, p)
	}
	if p.Flags != 0 {
		b = appendOption32(b, epbFlags, p.Flags)
	}
	if p.Fields&HasHash != 0 {
		// The octet for Toeplitz, the hash in the section's byte order, and 3 bytes of padding.
		b = le.AppendUint64(b, epbHash|5<<16|hashToeplitz<<32|uint64(p.Hash)<<40)
		b = le.AppendUint32(b, p.Hash>>24)
	}
	if p.Dropped != 0 {
		b = appendOption64(b, epbDropCount, p.Dropped)
	}
	if p.Fields&HasID != 0 {
		b = appendOption64(b, epbPacketID, p.ID)
	}
	if p.Fields&HasQueue != 0 {
		b = appendOption32(b, epbQueue, p.Queue)
	}
	switch {
	case p.Fields&HasVerdict == 0:
	case p.VerdictKind == TCVerdict:
		// The octet for tc, then the signed verdict as 64 bits, then 3 bytes of padding.
		b = le.AppendUint64(b, epbVerdict|9<<16|verdictTC<<32|uint64(p.Verdict)<<40)
		b = le.AppendUint64(b, uint64(int64(int32(p.Verdict))>>24)&(1<<40-1))
	case p.VerdictKind == XDPVerdict:
		// The same with an unsigned action. Wireshark rejects any other length.
		b = le.AppendUint64(b, epbVerdict|9<<16|verdictXDP<<32|uint64(p.Verdict)<<40)
		b = le.AppendUint64(b, uint64(p.Verdict)>>24)
	}
	return finish(b, start, options)
}

// Counters is the set of a Statistics' counters that a block has.
type Counters uint8

const (
	HasReceived Counters = 1 << iota
	HasAccepted
	HasDropped
	HasOSDropped
	HasDelivered
)

// Statistics is an Interface Statistics Block. The counters are cumulative from Start. Every
// counter in Known is written, even if it is 0.
type Statistics struct {
	Interface uint32 // position of the interface in the section
	Time      uint64 // when the counters were read, ns since the Unix epoch
	Start     uint64 // isb_starttime, ns since the Unix epoch; 0 = omitted
	End       uint64 // isb_endtime, ns since the Unix epoch; 0 = omitted
	Received  uint64 // isb_ifrecv: packets the interface received
	Accepted  uint64 // isb_filteraccept: packets the filter matched
	Dropped   uint64 // isb_ifdrop: packets lost for lack of room; readers show this number
	OSDropped uint64 // isb_osdrop: part of Dropped: packets lost on the way to this program
	Delivered uint64 // isb_usrdeliv: packets that this program received

	Known    Counters // the counters that are written; 0 = all
	Comments []string // an opt_comment for each; empty ones are omitted
}

// AppendStatistics appends s as an Interface Statistics Block.
func AppendStatistics(b []byte, s *Statistics) []byte {
	start := len(b)
	b = appendHeader(b, TypeStatistics)
	b = le.AppendUint32(b, s.Interface)
	b = appendTime(b, s.Time)
	options := len(b)
	for _, c := range s.Comments {
		b = appendString(b, optComment, c)
	}
	if s.Start != 0 {
		b = appendTime(le.AppendUint32(b, isbStartTime|8<<16), s.Start)
	}
	if s.End != 0 {
		b = appendTime(le.AppendUint32(b, isbEndTime|8<<16), s.End)
	}
	for _, c := range [...]struct {
		has   Counters
		code  uint16
		value uint64
	}{
		{HasReceived, isbIfRecv, s.Received},
		{HasDropped, isbIfDrop, s.Dropped},
		{HasAccepted, isbFilterAccept, s.Accepted},
		{HasOSDropped, isbOSDrop, s.OSDropped},
		{HasDelivered, isbUsrDeliv, s.Delivered},
	} {
		if s.Known == 0 || s.Known&c.has != 0 {
			b = appendOption64(b, c.code, c.value)
		}
	}
	return finish(b, start, options)
}
