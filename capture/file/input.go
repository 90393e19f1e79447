package file

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// An Input is a capture.Input of capture files. It merges the packets of several files by time: the
// next packet is the earliest of each file's next packets, so packets that are out of order within
// a file stay so. Its sources are the interfaces of the files. When an output begins, these are
// only those that the files have described so far: see Description.More.
//
// A truncated or damaged file is read up to the damage, and the other files to their end; then Read
// returns all errors. The memory used depends neither on the length of the files nor on the lengths
// in a damaged file, and Read allocates no memory per packet. All methods but Stop and Accounts
// belong to one goroutine.
type Input struct {
	options InputOptions
	files   []*capfile.File
	merge   *capfile.Merge
	memory  *capfile.Memory // for decompression
	waits   bool            // a file may wait for more packets: InputFile.Waits
	started time.Time

	sources    []capture.Source
	indexes    map[interfaceName]int       // Source.Index of each interface
	statistics map[int]InterfaceStatistics // the latest of each source
	outlets    nameTable[capture.Outlet]
	reasons    nameTable[capture.Reason]
	locations  nameTable[capture.Location]
	handlers   []func(*capfile.Block) // called with each block that is not a packet

	packets [groupSize]storedPacket // of the last Read
	pending *capfile.Block          // a block other than a packet, to be handled before the next packet
	counts  capture.Accounts        // by source
	changed []int                   // sources whose latest counts are not published yet
	skipped uint64                  // matching packets omitted for InputOptions.Skip
	taken   uint64                  // packets that Read has returned, for InputOptions.Count
	idle    func()                  // the argument of the current Read
	err     error                   // the error that Read returns from now on

	stopping sync.Once
	stopped  chan struct{} // closed by Stop
	ended    atomic.Bool   // stopped is closed

	mu        sync.Mutex
	published capture.Accounts // a copy of counts, for Accounts
}

// A storedPacket has a file's data about a packet besides its bytes.
type storedPacket struct {
	capture.Facts
	capture.Stored
	raw   pcapng.Block // as in the file; Raw is nil for a pcap file
	from  *capfile.Interface
	order int64         // ns since the Unix epoch: the packet's time or, without one, the previous packet's
	known pcapng.Fields // the fields that the block has
}

// Comments implements [capture.StoredBlock].
func (p *storedPacket) Comments() []string {
	if p.raw.Raw == nil {
		return nil
	}
	return p.raw.Comments()
}

// NewInput starts to read the files. It never closes them.
func NewInput(files []InputFile, o InputOptions) (*Input, error) {
	if o.Memory == 0 {
		o.Memory = machine.AvailableMemory().Bytes
	}
	in := &Input{
		options: o, started: time.Now(), stopped: make(chan struct{}),
		memory:  capfile.NewMemory(o.Memory),
		indexes: make(map[interfaceName]int), statistics: make(map[int]InterfaceStatistics),
	}
	for _, file := range files {
		options := capfile.Options{Memory: in.memory, Correct: file.Correct, Prefix: file.Prefix}
		if file.Waits {
			in.waits, options.BeforeRead, options.Late = true, in.beforeRead, file.Late
		}
		f, err := capfile.New(file.In, file.Name, options)
		if err != nil {
			return nil, errors.Join(err, in.Close())
		}
		in.files = append(in.files, f)
	}
	in.merge = capfile.NewMerge(in.files)
	for i := range in.packets {
		in.packets[i].Block = &in.packets[i]
	}
	return in, nil
}

// beforeRead is called before each read of a file with InputFile.Waits. It ends the reading after
// Stop, and lets the outputs write meanwhile.
func (in *Input) beforeRead() error {
	if in.ended.Load() {
		return io.EOF
	}
	if in.idle != nil {
		in.idle()
	}
	return nil
}

// Description describes the files.
func (in *Input) Description() capture.Description {
	d := capture.Description{
		Sources:    in.Sources(),
		More:       in.SourcesFrom,
		Options:    capture.Options{SnapLen: noSnapLen, Notice: in.options.Notice},
		Started:    in.started,
		Accounts:   in.Accounts,
		OutletName: in.outlets.name, ReasonName: func(_ uint16, f *capture.Facts) string { return in.reasons.name(f.Reason) }, LocationName: in.locations.name,
		Files: in,
	}
	if !in.waits { // an output may wait in Write, because packets of complete files are not lost
		d.Stopped = in.stopped
	}
	return d
}

// groupSize is how many packets Read returns at most: as many as [capture.Run] takes at a time.
const groupSize = 32

// noSnapLen is tcpdump's default snapshot length, used where there is no limit.
const noSnapLen = 262144

// Sources are the interfaces that were described so far.
func (in *Input) Sources() []capture.Source { return slices.Clone(in.sources) }

// SourcesFrom returns the sources from an index on.
func (in *Input) SourcesFrom(from int) []capture.Source {
	return in.sources[min(from, len(in.sources)):]
}

// Read implements [capture.Input].
func (in *Input) Read(packets []capture.Packet, idle func()) (n int, err error) {
	in.idle = idle
	in.outlets.shrink()
	in.reasons.shrink()
	in.locations.shrink()
	packets = packets[:min(len(packets), len(in.packets))]
	for n < len(packets) && in.err == nil {
		if in.pending != nil {
			in.handle(in.pending)
			in.pending = nil
			continue // handle may have set in.err
		}
		if n > 0 && !in.merge.IsReady() {
			break
		}
		b, err := in.next()
		switch {
		case err != nil:
			in.err = err
		case b.Kind == capfile.Packet:
			if in.fill(&packets[n], &in.packets[n], b); in.accept(&packets[n]) {
				n++
			}
		case n > 0: // b comes after these packets, so the next Read handles it
			in.pending = b
			in.publish()
			return n, nil
		default:
			in.handle(b)
		}
	}
	in.publish()
	if n == 0 {
		return 0, in.err
	}
	return n, nil
}

// next returns the next block of all files, in the order of the merge; io.EOF after Stop.
func (in *Input) next() (*capfile.Block, error) {
	if in.ended.Load() {
		return nil, io.EOF
	}
	b, err := in.merge.Next()
	if err != nil && (in.ended.Load() || errors.Is(err, context.Canceled)) {
		err = io.EOF // Stop was called, or a file's context was canceled
	}
	return b, err
}

// fill makes p the packet of a block, with its facts in f. The number of an interface is the index
// of its source.
func (in *Input) fill(p *capture.Packet, f *storedPacket, b *capfile.Block) {
	from := &b.Packet
	// The fields are set one by one, because assigning a whole struct would build it and then copy
	// it. Fields of Facts that no file has stay 0.
	f.WireLen, f.Verdict, f.Time = from.WireLen, capture.Verdict(from.Verdict), b.Order()
	f.VerdictKind = capture.VerdictKind(from.VerdictKind)
	f.ID, f.Dropped, f.Queue = from.ID, from.Dropped, from.Queue
	f.Weight, f.GSOSize, f.RunTime, f.ClockSetBack = from.Weight, uint16(min(from.GSOSize, math.MaxUint16)), from.RunTime, from.SetBack
	f.Hash, f.HashKind, f.To, f.Reason, f.Location = 0, capture.NoHash, 0, 0, 0
	f.raw, f.from, f.order, f.known = b.Raw, b.Interface, b.Order(), from.Fields
	f.HasVerdict, f.HasQueue, f.HasID = f.known&pcapng.HasVerdict != 0, f.known&pcapng.HasQueue != 0, f.known&pcapng.HasID != 0
	f.NoTime, f.Flags = b.Untimed, from.Flags
	if f.Flags&pcapng.DirectionMask == 0 {
		f.Flags |= directionIn(&in.sources[b.Interface.Number], from.Data)
	}
	if f.known&pcapng.HasHash != 0 {
		f.Hash, f.HashKind = from.Hash, capture.ToeplitzHash
	}
	if from.Outlet != nil {
		f.To = in.outlets.number(from.Outlet)
	}
	if from.Device != nil && from.Location != nil {
		f.To = in.outlets.number(from.Device)
	}
	if from.Reason != nil {
		f.Reason, f.Location = in.reasons.number(from.Reason), in.locations.number(from.Location)
	}
	p.Facts, p.Data, p.Source, p.Stored = &f.Facts, from.Data, uint16(b.Interface.Number), &f.Stored
}

// accept counts a packet, and reports whether Read returns it. Otherwise it is filtered out. The
// last packet that InputOptions.Count allows ends the reading.
func (in *Input) accept(p *capture.Packet) bool {
	source := int(p.Source)
	a := &in.counts[source]
	a.Seen++
	if n := len(in.changed); n == 0 || in.changed[n-1] != source {
		in.noteChange(source)
	}
	matches := in.options.Match == nil || in.options.Match(&in.sources[source], p)
	if !matches || in.skipped < in.options.Skip {
		if matches {
			in.skipped++
		}
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

// handle updates the sources and statistics by a block that is not a packet, and passes it to the
// handlers.
func (in *Input) handle(b *capfile.Block) {
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
			in.statistics[b.Interface.Number] = statisticsIn(b)
		}
	}
	for _, handle := range in.handlers {
		handle(b)
	}
}

var errTooManyInterfaces = errors.New("the files have more than 65536 interfaces")

// onBlocks registers a function for blocks that are not packets. The goroutine of Read calls it at
// their position among the packets.
func (in *Input) onBlocks(handle func(*capfile.Block)) { in.handlers = append(in.handlers, handle) }

// IsUnlimited implements [capture.Files]: the interfaces of several files, or of a pcap file, have
// no common snapshot length.
func (in *Input) IsUnlimited() bool { return len(in.files) != 1 || in.files[0].Format == capfile.PCAP }

// noteChange records that the counts of a source must be published.
func (in *Input) noteChange(source int) {
	if len(in.changed) == maxChanged {
		in.publish()
	}
	in.changed = append(in.changed, source)
}

// maxChanged is how many changes may wait for publish. Read also publishes when it returns, but it
// returns late if no packet matches.
const maxChanged = 1024

// publish copies the changed counts to `published`, which Accounts reads. It does not copy all
// counts, because a file may have very many interfaces.
func (in *Input) publish() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.published) < len(in.counts) {
		in.published = append(in.published, capture.Account{})
	}
	for _, source := range in.changed {
		in.published[source] = in.counts[source]
	}
	in.changed = in.changed[:0]
}

// Accounts returns the accounts of the interfaces so far. Seen counts the packets that were read.
func (in *Input) Accounts() (capture.Accounts, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.published), nil
}

// Stop ends the reading.
func (in *Input) Stop() {
	in.stopping.Do(func() {
		in.ended.Store(true)
		close(in.stopped)
	})
}

// Close frees the resources of decompression. It does not close the files.
func (in *Input) Close() error {
	in.Stop()
	for _, f := range in.files {
		f.Close()
	}
	return nil
}
