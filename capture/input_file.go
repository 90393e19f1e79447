package capture

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// An InputFile is a capture file that is read: pcapng or pcap, also compressed by gzip or zstd.
// What it is, its content says.
type InputFile struct {
	Name string // what errors call it, and an interface that has no name
	In   io.Reader

	// Waits says that In may wait for more, as a pipe does or a connection. So that the outputs do
	// not wait with it, its Read may return no bytes and no error a few times a second. The error
	// context.Canceled ends the reading as Stop does.
	Waits bool
}

// FileInputOptions say how to read capture files. The zero value of each field is its default.
type FileInputOptions struct {
	// Match chooses packets: those for which it is false are FilteredOut; nil = all. It is called
	// by the goroutine of Read.
	Match func(*Source, *Packet) bool
	Count uint64 // end after this many packets that match; 0 = no limit

	// Section, if not nil, is told the comments of each pcapng section when it begins. It is called
	// by the goroutine of Read.
	Section func(comments []string)

	// Memory is how many bytes are available, which a process that has entered a sandbox cannot
	// find out any more. Decompression takes a quarter of them, and a GiB at most. 0 = NewFileInput
	// asks the kernel.
	Memory uint64

	// Notice, if not nil, is told what does not end the reading, as Options.Notice is.
	Notice func(error)
}

// A FileInput is an Input of capture files. The packets of several files become one sequence by
// time: the next packet is the one with the earliest time of those that come next in each file, and
// what is out of order within a file stays so. Its sources are the interfaces of the files. Only
// those are known at Begin that were described by then, see Description.More.
//
// A file that is cut off or damaged is read up to there, and the others go on; then Read returns
// the errors of all. Memory depends neither on the length of the files nor on what a damaged one
// says of lengths, and nothing is allocated for a packet. All methods but Stop and Accounts belong
// to one goroutine.
type FileInput struct {
	options FileInputOptions
	files   []*capfile.File
	merge   *capfile.Merge
	memory  *capfile.Memory
	live    bool // a file waits for packets
	started time.Time

	sources    []Source
	indexes    map[interfaceName]int
	statistics map[int]saidStatistics
	outlets    outletNames
	takers     []func(*capfile.Block)

	packets [groupSize]filePacket
	pending *capfile.Block // which is no packet, and comes after the packets that Read has returned
	counts  Accounts
	changed []int // sources whose counts are not published yet
	taken   uint64
	idle    func()
	err     error // what Read returns from now on

	stopping sync.Once
	stopped  chan struct{}
	ended    atomic.Bool // stopped is closed

	mu        sync.Mutex
	published Accounts
}

// A filePacket is what a file has of a packet besides its bytes.
type filePacket struct {
	Facts
	raw   pcapng.Block // as it stands in the file; Raw is nil in a pcap file
	from  *capfile.Interface
	order int64 // the time, or that of the packet before one that has none
	flags uint32
	known pcapng.Fields
}

// FileStatistics are what a file says of an interface. A number that it does not have is nil.
type FileStatistics struct {
	Seen     *uint64 // packets that the interface received
	Matched  *uint64 // that the filter accepted
	Lost     *uint64 // that found no room, or were not taken by an output
	Dropped  *uint64 // those of them that found no room
	Captured *uint64
}

// NewFileInput begins to read files, in this order. They are not closed by it.
func NewFileInput(files []InputFile, o FileInputOptions) (*FileInput, error) {
	if o.Memory == 0 {
		o.Memory = machine.AvailableMemory().Bytes
	}
	in := &FileInput{
		options: o, started: time.Now(), stopped: make(chan struct{}),
		memory:  capfile.NewMemory(o.Memory),
		indexes: make(map[interfaceName]int), statistics: make(map[int]saidStatistics),
	}
	for _, file := range files {
		options := capfile.Options{Memory: in.memory}
		if file.Waits {
			in.live, options.BeforeRead = true, in.wait
		}
		f, err := capfile.New(file.In, file.Name, options)
		if err != nil {
			return nil, errors.Join(err, in.Close())
		}
		in.files = append(in.files, f)
	}
	in.merge = capfile.NewMerge(in.files)
	return in, nil
}

// wait is called before a file that may wait is read.
func (in *FileInput) wait() error {
	if in.ended.Load() {
		return io.EOF
	}
	if in.idle != nil {
		in.idle()
	}
	return nil
}

// Description describes the files.
func (in *FileInput) Description() Description {
	return Description{
		Sources:    in.Sources(),
		More:       in.SourcesFrom,
		Options:    Options{SnapLen: noSnapLen, Notice: in.options.Notice},
		Started:    in.started,
		Accounts:   in.Accounts,
		OutletName: in.outlets.name,
		files:      in,
	}
}

// noSnapLen is tcpdump's snapshot length, for what has no limit.
const noSnapLen = 262144

// Sources are the interfaces that were described so far.
func (in *FileInput) Sources() []Source { return slices.Clone(in.sources) }

// SourcesFrom returns those from an index on.
func (in *FileInput) SourcesFrom(from int) []Source { return in.sources[min(from, len(in.sources)):] }

// Statistics returns what the files have said last of a source, an index into Sources.
func (in *FileInput) Statistics(source int) (s FileStatistics, ok bool) {
	said, ok := in.statistics[source]
	if ok {
		s = said.numbers()
	}
	return s, ok
}

// Read is that of an [Input].
func (in *FileInput) Read(packets []Packet, idle func()) (n int, err error) {
	in.idle = idle
	in.outlets.shrink()
	packets = packets[:min(len(packets), len(in.packets))]
	for n < len(packets) && in.err == nil {
		if in.pending != nil {
			in.take(in.pending)
			in.pending = nil
		}
		if n > 0 && !in.merge.IsReady() {
			break
		}
		b, err := in.next()
		switch {
		case err != nil:
			in.err = err
		case b.Kind == capfile.Packet:
			if in.packet(&packets[n], &in.packets[n], b) {
				n++
			}
		case n > 0: // it comes after these packets
			in.pending = b
			return in.publish(n), nil
		default:
			in.take(b)
		}
	}
	in.publish(n)
	if n == 0 {
		return 0, in.err
	}
	return n, nil
}

func (in *FileInput) next() (*capfile.Block, error) {
	if in.ended.Load() {
		return nil, io.EOF
	}
	b, err := in.merge.Next()
	if err != nil && (in.ended.Load() || errors.Is(err, context.Canceled)) {
		err = io.EOF // it was read no further: Stop was called, or a context that calls it is done
	}
	return b, err
}

// packet makes a packet of a block. It is false where the packet does not match.
func (in *FileInput) packet(p *Packet, f *filePacket, b *capfile.Block) bool {
	source := b.Interface.Number
	// The fields are set one by one: a whole struct would be made first and copied then. The
	// others stay 0.
	f.Source, f.WireLen, f.Verdict, f.Time = uint16(source), b.Packet.WireLen, Verdict(b.Packet.Verdict), b.Time
	f.ID, f.Dropped, f.Queue = b.Packet.ID, b.Packet.Dropped, b.Packet.Queue
	f.Weight, f.GSOSize, f.RunTime, f.ClockSetBack = b.Packet.Weight, b.Packet.GSOSize, b.Packet.RunTime, b.Packet.SetBack
	f.Hash, f.HashKind, f.To = 0, NoHash, 0
	f.raw, f.from, f.order, f.flags, f.known = b.Raw, b.Interface, b.Order(), b.Packet.Flags, b.Packet.Fields
	if f.known&pcapng.HasHash != 0 {
		f.Hash, f.HashKind = b.Packet.Hash, ToeplitzHash
	}
	if b.Packet.Outlet != nil {
		f.To = in.outlets.learn(b.Packet.Outlet)
	}
	p.Facts, p.Data, p.file = &f.Facts, b.Packet.Data, f
	a := &in.counts[source]
	a.Seen++
	if n := len(in.changed); n == 0 || in.changed[n-1] != source {
		in.change(source)
	}
	if in.options.Match != nil && !in.options.Match(&in.sources[source], p) {
		a.FilteredOut++
		return false
	}
	a.Captured++
	a.Bytes += uint64(len(p.Data))
	if in.taken++; in.taken == in.options.Count {
		in.err = io.EOF
	}
	return true
}

// take takes what is no packet.
func (in *FileInput) take(b *capfile.Block) {
	switch b.Kind {
	case capfile.Section:
		if in.options.Section != nil {
			in.options.Section(b.Raw.Comments())
		}
	case capfile.Described:
		if b.Interface.Number > math.MaxUint16 {
			in.err = errTooManyInterfaces
			return
		}
		in.describe(b.Interface)
	case capfile.Statistics:
		if b.Interface != nil {
			in.statistics[b.Interface.Number] = saidStatistics{b.Statistics, b.Known}
		}
	}
	for _, take := range in.takers {
		take(b)
	}
}

var errTooManyInterfaces = errors.New("the files have more than 65536 interfaces")

// saidStatistics are those of a block.
type saidStatistics struct {
	pcapng.Statistics
	known pcapng.Counters
}

// numbers are those that the block has.
func (b *saidStatistics) numbers() (s FileStatistics) {
	for _, n := range []struct {
		to    **uint64
		has   pcapng.Counters
		value uint64
	}{
		{&s.Seen, pcapng.HasReceived, b.Received},
		{&s.Matched, pcapng.HasAccepted, b.Accepted},
		{&s.Lost, pcapng.HasDropped, b.Dropped},
		{&s.Dropped, pcapng.HasOSDropped, b.OSDropped},
		{&s.Captured, pcapng.HasDelivered, b.Delivered},
	} {
		if b.known&n.has != 0 {
			*n.to = &n.value
		}
	}
	return s
}

// onBlocks lets a function take the blocks that are no packets, between the same packets. It is
// called by the goroutine of Read.
func (in *FileInput) onBlocks(take func(*capfile.Block)) { in.takers = append(in.takers, take) }

// change notes that the counts of a source are to be published.
func (in *FileInput) change(source int) {
	if len(in.changed) == maxChanged {
		in.publish(0)
	}
	in.changed = append(in.changed, source)
}

// maxChanged is how many changes wait to be published, while no packet matches.
const maxChanged = 1024

// publish copies the counts that have changed to where Accounts reads them, and returns n. A file
// may have very many interfaces, so it does not copy all.
func (in *FileInput) publish(n int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.published) < len(in.counts) {
		in.published = append(in.published, Account{})
	}
	for _, source := range in.changed {
		in.published[source] = in.counts[source]
	}
	in.changed = in.changed[:0]
	return n
}

// Accounts returns the accounts of the interfaces so far: the packets in the files were Seen.
func (in *FileInput) Accounts() (Accounts, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.published), nil
}

// Stop ends the reading.
func (in *FileInput) Stop() {
	in.stopping.Do(func() {
		in.ended.Store(true)
		close(in.stopped)
	})
}

// Close gives back what decompression holds. It closes none of the files.
func (in *FileInput) Close() error {
	in.Stop()
	for _, f := range in.files {
		f.Close()
	}
	return nil
}
