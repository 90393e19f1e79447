// Package recorder keeps the latest packets of a capture in memory, and writes them into a file
// when something happens: a flight recorder.
package recorder

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// MinSize is the minimum memory of a [Recorder], in bytes: a few of the longest packets.
const MinSize = 1 << 20

// Options configure a [Recorder].
type Options struct {
	Size     int           // bytes of memory for packets, MinSize or more; each packet takes 104 more than its own bytes
	Ahead    time.Duration // upper bound for the time of a recording before its trigger; 0 = as much as is in memory
	Post     time.Duration // how long a recording continues after its trigger
	Triggers []Trigger
	AtEnd    bool // at the end, also write the packets in memory

	// Interval is the minimum time between two packets that start recordings, by their stamps.
	// Triggers that fire earlier are only counted. Recorder.Trigger and AtEnd ignore it.
	Interval time.Duration

	// Open opens the file for the next recording, and returns its name for Done. It is not called
	// by the goroutine of the Recorder's methods, and by one goroutine at a time. The first file's
	// Rotation.Keep, Left, MaxBytes and MinFree apply to the files of all recordings together.
	// Without Keep, the session ends before MaxBytes or MinFree is exceeded, as with a File.
	Open func() (opened *file.File, name string, err error)

	// Done, if not nil, is called with each recording when its file is complete. A goroutine of the
	// recorder calls it, so it must not block.
	Done func(Recording)
}

// A Recorder is an Output that keeps the latest packets in memory, and writes them to a file when a
// packet fires one of the triggers or when Trigger is called. The recording continues for the time
// Post. A trigger that fires during that time is counted and gets no file of its own. A packet is
// written at most once: the next recording begins with the first packet in memory after the
// previous recording.
//
// Packets that are overwritten in memory, or are still there at the end, count as NotSampled and
// NotRecorded in the recorder's account. A file's statistics are about the packets in it.
//
// Another goroutine writes the files, one after the other, while the previous one is synced to
// disk. A recording that waits for several earlier ones loses its oldest packets if their memory is
// needed. If packets arrive faster than the current file can be written, Write waits. While files
// are written, the queues of up to two files need memory in addition to Size: see [file.Writer].
//
// A Recorder belongs to one goroutine, except Trigger, Recordings, State and Overwritten.
type Recorder struct {
	options     Options
	description capture.Description
	ring        *packetRing

	list    *capture.SourceList
	sources atomic.Pointer[[]capture.Source] // the sources in list; replaced instead of changed
	leaving map[int]uint64                   // by source that has gone: the position in the ring after its last packet

	requested atomic.Pointer[Recording] // set by Trigger
	current   *recording                // the recording that still gets packets, or nil
	deadline  int64                     // when current ends, in nanoseconds since the epoch
	queued    []*recording              // recordings that wait for write
	last      time.Time                 // when the current or last recording was fired

	noticedShort bool // the notice of noticeShort was given

	recordings, passedOver atomic.Uint64 // the results of Recordings
	newest                 int64         // the stamp of the last packet
	held                   atomic.Int64  // nanoseconds from the oldest packet in memory to the newest

	next       chan *recording
	writerIdle atomic.Bool   // write waits for the next recording
	draining   atomic.Bool   // write removes packets from the ring
	unfinished atomic.Int32  // recordings that were passed to write and whose files are not complete
	needsRoom  atomic.Bool   // Write waits for room in the ring
	wake       chan struct{} // to write: the ring has more packets, or the recording has ended
	freed      chan struct{} // to Write: the ring has more room, or write has stopped draining
	ended      chan struct{} // closed when write has ended

	overwritten atomic.Pointer[[]atomic.Uint64] // by source; nil before Begin

	keeper  *file.Keeper          // of all files; belongs to write
	notice  func(error)           // for the keeper
	failure atomic.Pointer[error] // the first error of a file
	taken   capture.Accounts      // Captured and Bytes in the files; belongs to write until ended
	refused capture.Accounts      // NotTaken: packets that a file did not take; belongs to write until ended
}

// New returns a recorder and allocates its memory. End or Close releases it.
func New(o Options) (*Recorder, error) {
	if o.Size < MinSize {
		return nil, fmt.Errorf("recorder memory of %d bytes: must be at least %d", o.Size, MinSize)
	}
	if available := machine.AvailableMemory(); uint64(o.Size) > available.Bytes/4*3 {
		return nil, fmt.Errorf("a recorder of %d MiB would leave less than a quarter of the available memory, which is %v: %d MiB fit",
			o.Size>>20, available, available.Bytes/4*3>>20)
	}
	ring, err := newPacketRing(o.Size)
	if err != nil {
		return nil, err
	}
	r := &Recorder{options: o, ring: ring, next: make(chan *recording, 1)}
	r.wake, r.freed = make(chan struct{}, 1), make(chan struct{}, 1)
	r.writerIdle.Store(true)
	return r, nil
}

// Recordings returns the number of recordings, including the current one, and the number of
// triggers that were only counted, because a recording was under way or Interval had not passed.
// Any goroutine may call it.
func (r *Recorder) Recordings() (recordings, passedOver uint64) {
	return r.recordings.Load(), r.passedOver.Load()
}

// Begin starts the goroutine that writes files.
func (r *Recorder) Begin(d capture.Description) error {
	r.description, r.notice = d, d.Notice
	r.description.Options.Notice = nil // otherwise each file would repeat the notices
	r.list, r.leaving = capture.NewSourceList(&d), make(map[int]uint64)
	r.updateSources()
	r.ended = make(chan struct{})
	go r.write()
	return nil
}

// updateSources publishes the sources of list and extends overwritten.
func (r *Recorder) updateSources() {
	all := slices.Clone(r.list.All())
	r.sources.Store(&all)
	counts := make([]atomic.Uint64, len(all))
	for i, n := range r.Overwritten() {
		counts[i].Store(n)
	}
	r.overwritten.Store(&counts)
}

// Forget implements [capture.Forgetter]. It returns true once the source's packets have left memory
// and all recordings are complete.
func (r *Recorder) Forget(source int) bool {
	after, ok := r.leaving[source]
	if !ok {
		after = r.ring.head.Load()
		r.leaving[source] = after
	}
	if r.ring.tail.Load() < after || r.unfinished.Load() > 0 {
		return false
	}
	delete(r.leaving, source)
	return true
}

// Write stores packets in memory, and drops the oldest packets to make room. It allocates no
// memory.
func (r *Recorder) Write(packets []capture.Packet) error {
	if len(r.list.Update()) > 0 {
		r.updateSources()
	}
	for i := range packets {
		r.add(&packets[i])
		if err := r.advance(); err != nil {
			return err
		}
	}
	if len(packets) > 0 {
		r.newest = packets[len(packets)-1].Time
	}
	r.noteHeld()
	return nil
}

// Overwritten returns, by source, how many packets since Begin were overwritten in memory before
// they were written. They are part of NotRecorded at the end. Any goroutine may call it.
func (r *Recorder) Overwritten() (packets []uint64) {
	if counted := r.overwritten.Load(); counted != nil {
		for i := range *counted {
			packets = append(packets, (*counted)[i].Load())
		}
	}
	return packets
}

// add adds a packet to the ring. It ends the current recording before a packet that is past the
// deadline, and begins a recording after a packet that fires a trigger.
func (r *Recorder) add(p *capture.Packet) {
	if r.current != nil {
		r.deadline -= int64(p.ClockSetBack)
		if p.Time > r.deadline {
			r.finish()
		}
	}
	r.dropOld(p.Time)
	bytes := room(len(p.Data))
	for !r.ring.hasRoom(bytes) {
		if r.draining.Load() {
			r.waitForRoom(bytes)
		} else {
			r.noticeShort(p.Time)
			r.overwrite()
		}
	}
	r.ring.put(p)
	for i := range r.options.Triggers {
		if t := &r.options.Triggers[i]; t.Fires(p, &(*r.sources.Load())[p.Source]) {
			r.fireAfterInterval(Recording{Trigger: t.Name, Time: time.Unix(0, p.Time)})
		}
	}
}

// overwrite drops the oldest packet and counts it as overwritten.
func (r *Recorder) overwrite() {
	(*r.overwritten.Load())[r.ring.firstSource()].Add(1)
	r.ring.drop()
}

// dropOld drops the packets that are too old for a recording whose trigger has this time stamp,
// unless another recording still needs them.
func (r *Recorder) dropOld(trigger int64) {
	if r.options.Ahead == 0 || r.current != nil || len(r.queued) > 0 {
		return
	}
	oldest := trigger - int64(r.options.Ahead)
	for !r.draining.Load() && !r.ring.isEmpty() && r.ring.firstTime() < oldest {
		r.overwrite()
	}
}

// noticeShort gives a notice, once, that the memory does not hold the packets of the time Ahead.
func (r *Recorder) noticeShort(now int64) {
	if r.options.Ahead == 0 || r.noticedShort {
		return
	}
	r.noticedShort = true
	r.notice(fmt.Errorf("the recorder's %s hold the packets of %v alone, and not of %v", machine.Amount(int64(r.options.Size)),
		time.Duration(now-r.ring.firstTime()).Round(time.Millisecond), r.options.Ahead))
}

// Flush begins and ends recordings on time while no packets arrive.
func (r *Recorder) Flush() error {
	if r.current != nil && r.settled().UnixNano() > r.deadline {
		r.finish()
	}
	r.noteHeld()
	return r.advance()
}

// settled returns the time up to which all packets are in the ring.
func (r *Recorder) settled() time.Time {
	if r.description.Settled == nil {
		return time.Now()
	}
	return r.description.Settled()
}

// advance begins a recording if Trigger was called, passes the next queued recording to write, and
// returns the first error of a file.
func (r *Recorder) advance() error {
	if r.requested.Load() != nil {
		requested := *r.requested.Swap(nil)
		r.dropOld(requested.Time.UnixNano())
		r.fire(requested)
	}
	if len(r.queued) > 0 && r.writerIdle.Load() {
		r.writerIdle.Store(false)
		r.draining.Store(true)
		r.unfinished.Add(1)
		r.next <- r.queued[0]
		r.queued = slices.Delete(r.queued, 0, 1)
	}
	if err := r.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// waitForRoom waits until write has made room for this many bytes, or no longer removes packets
// from the ring.
func (r *Recorder) waitForRoom(bytes uint64) {
	r.needsRoom.Store(true)
	defer r.needsRoom.Store(false)
	signal(r.wake)
	if !r.ring.hasRoom(bytes) && r.draining.Load() {
		<-r.freed
	}
}

// signal wakes the goroutine that receives from c, now or when it next receives.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// End completes the files. Captured in the account is the number of packets in them.
func (r *Recorder) End(final capture.Accounts) (capture.Accounts, error) {
	if r.options.AtEnd {
		now := time.Now()
		r.dropOld(now.UnixNano())
		r.fire(Recording{Trigger: "the end of the capture", Time: now})
	}
	if r.current != nil {
		r.finish()
	}
	for _, next := range r.queued {
		r.next <- next
	}
	close(r.next)
	<-r.ended
	r.Close()
	var err error
	if failed := r.failure.Load(); failed != nil && !errors.Is(*failed, capture.ErrEnough) {
		err = *failed
	}
	return r.accounts(final), err
}

// Close releases the memory of a recorder that was not begun, or has ended.
func (r *Recorder) Close() { r.ring.close() }

// accounts returns the accounts of the recorder by those of the session.
func (r *Recorder) accounts(final capture.Accounts) capture.Accounts {
	own := make(capture.Accounts, len(final))
	for i, a := range final {
		own[i] = r.AccountOf(i, a)
	}
	return own
}

// AccountOf returns the recorder's account of a source for which Forget has just returned true. a
// is the session's account of it. Of the packets that the session captured, files have some, did
// not take others, and never got the rest.
func (r *Recorder) AccountOf(source int, a capture.Account) capture.Account {
	taken, refused := r.taken.Of(source), r.refused.Of(source).NotTaken
	rest := a.Captured - taken.Captured - refused
	a.NotSampled += rest
	a.NotRecorded += rest
	a.Lost += refused
	a.NotTaken += refused
	a.Captured, a.Bytes = taken.Captured, taken.Bytes
	return a
}
