package capfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	maxInterfaces = 1 << 16 // in a file: a block of 20 bytes needs a hundred in memory
	maxName       = 256     // bytes of an interface's name
	maxAbout      = 1 << 10 // bytes of its description
)

// openPCAPNG reads the first section header, which Next returns again.
func (f *File) openPCAPNG() error {
	f.next, f.ready = f.nextPCAPNG, f.isReadyPCAPNG
	raw, big, err := f.peekBlock()
	if err != nil {
		return err
	}
	f.first, err = pcapng.ParseBlock(bytes.Clone(raw), big)
	if err != nil {
		return f.damaged(err)
	}
	return nil
}

// peekBlock returns the next block and does not advance.
func (f *File) peekBlock() (raw []byte, big bool, err error) {
	head, err := f.in.peek(pcapng.HeaderSize)
	if err != nil {
		return nil, false, f.endError(err, len(head))
	}
	n, big, err := pcapng.BlockLength(head, f.big)
	if err != nil {
		return nil, false, f.damaged(err)
	}
	raw, err = f.in.peek(n)
	if err != nil {
		return nil, false, f.endError(err, max(len(raw), 1))
	}
	return raw, big, nil
}

func (f *File) isReadyPCAPNG() bool {
	if !f.in.has(pcapng.HeaderSize) {
		return false
	}
	n, _, err := pcapng.BlockLength(f.in.buf[f.in.from:], f.big)
	return err != nil || f.in.has(n)
}

func (f *File) nextPCAPNG() error {
	raw, big, err := f.peekBlock()
	if err != nil {
		return err
	}
	f.big = big
	b := &f.block
	if b.Raw, err = pcapng.ParseBlock(raw, big); err == nil {
		err = f.interpret(b)
	}
	if err != nil {
		return f.damaged(err)
	}
	f.in.skip(len(raw))
	return nil
}

// interpret sets the kind of a pcapng block, and parses the fields of that kind.
func (f *File) interpret(b *Block) error {
	b.Interface = nil
	switch b.Raw.Type {
	case pcapng.TypeSection:
		b.Kind = Section
		f.interfaces = nil
	case pcapng.TypeInterface:
		b.Kind = Described
		return f.describe(b)
	case pcapng.TypePacket, pcapng.TypeOldPacket, pcapng.TypeSimple:
		b.Kind = Packet
		return f.packet(b)
	case pcapng.TypeStatistics:
		b.Kind = Statistics
		b.Statistics, b.Known = pcapng.ParseStatistics(b.Raw)
		if n := b.Statistics.Interface; uint64(n) < uint64(len(f.interfaces)) {
			b.Interface = f.interfaces[n]
			if f.correct != nil {
				f.correctBlock(b)
				b.Statistics, b.Known = pcapng.ParseStatistics(b.Raw)
			}
			for _, t := range []*uint64{&b.Statistics.Time, &b.Statistics.Start, &b.Statistics.End} {
				*t = uint64(b.Interface.clock.Time(*t))
			}
		}
	default:
		b.Kind = Other
	}
	return nil
}

func (f *File) describe(b *Block) error {
	if f.described == maxInterfaces {
		return fmt.Errorf("it has more than %d interfaces", maxInterfaces)
	}
	f.described++
	if f.prefix != "" {
		b.Raw = pcapng.PrefixName(b.Raw, f.prefix)
	}
	i, clock := pcapng.ParseInterface(b.Raw)
	b.Interface = &Interface{
		File: f, Index: len(f.interfaces), Name: beginning(i.Name, maxName), About: beginning(i.Description, maxAbout), Filter: beginning(i.Filter, maxAbout),
		LinkType: i.LinkType, SnapLen: i.SnapLen, Netmask: i.Netmask, clock: clock,
	}
	f.interfaces = append(f.interfaces, b.Interface)
	return nil
}

// beginning returns a copy of the first bytes of a text. A slice of it would keep all of the text
// in memory; a compressed file of a few bytes may contain 64 KiB for each interface.
func beginning(text string, bytes int) string { return strings.Clone(text[:min(len(text), bytes)]) }

var errNoInterface = errors.New("a packet refers to an interface that is not described before it")

func (f *File) packet(b *Block) error {
	if len(f.interfaces) == 0 {
		return errNoInterface
	}
	if err := pcapng.ParsePacket(b.Raw, f.interfaces[0].SnapLen, &b.Packet); err != nil {
		return err
	}
	if uint64(b.Packet.Interface) >= uint64(len(f.interfaces)) {
		return errNoInterface
	}
	b.Interface = f.interfaces[b.Packet.Interface]
	b.Untimed = b.Raw.Type == pcapng.TypeSimple
	if b.Untimed {
		b.Time, b.order = 0, f.last
	} else {
		b.Time = b.Interface.clock.Time(b.Packet.Time)
		if f.correct != nil {
			b.Time = f.correct(b.Time)
			f.correctBlock(b)
		}
		b.order = b.Time
	}
	f.last = b.order
	b.Packet.Time = uint64(b.Time)
	f.packets++
	return nil
}

// correctBlock corrects the times in a block of an interface.
func (f *File) correctBlock(b *Block) {
	clock := b.Interface.clock
	b.Raw.ConvertTimes(func(stamp uint64) uint64 { return clock.Stamp(f.correct(clock.Time(stamp))) })
}
