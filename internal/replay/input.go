// Package replay runs an XDP program on the packets of capture files by BPF_PROG_RUN, without
// attaching it, and compares its verdicts with those in the captures, or with another program's.
//
// Some things differ from the time of the capture: the clock, the work of other CPUs, and the
// entries that earlier packets have left in maps. A redirected packet is not sent.
package replay

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	minPacket = 14    // an Ethernet header: BPF_PROG_RUN refuses shorter packets
	maxPacket = 65535 // BPF_PROG_RUN takes at most 18 pages

	headroom = 256 // bytes by which a program can make a packet longer, at most
)

// Options are the programs to run, and the object of the comparison.
type Options struct {
	Program *Program
	Against *Program // also runs on each packet, for the comparison; nil = Program is compared with the capture
	Ingress int      // index of the interface from which packets seem to come; 0 = loopback
	Expect  *Expectations

	// Direction is that of the packets to run: In or, for a capture at their sender, Out.
	Direction capture.Direction
}

// An Input wraps an input, and runs the program on its packets. It returns them as the program
// leaves them, with its verdict, like a capture at the program's exit. It belongs to the goroutine
// of the wrapped input.
type Input struct {
	capture.Input
	options Options
	program *runner
	against *runner // nil without Options.Against
	result  *resultBuilder

	description capture.Description
	sources     *capture.SourceList
	entered     map[uint64]outcome // of Program, by packet id, for packets whose Exit was not read yet
	packets     []packet           // memory for the packets of one Read, reused by the next
	other       []byte             // memory for a packet as Against leaves it
}

// A packet is the memory for a packet as a program leaves it.
type packet struct {
	facts capture.Facts
	data  [maxPacket + headroom]byte
}

// seed is for the hashes in outcomes.
var seed = maphash.MakeSeed()

// maxEntered is the maximum number of packets in Input.entered; when it is reached, the map is
// cleared, because their exits are missing in the capture.
const maxEntered = 1 << 14

// NewInput wraps an input of capture files.
func NewInput(from capture.Input, o Options) *Input {
	in := &Input{
		Input: from, options: o, program: newRunner(o.Program, o.Ingress), result: newResultBuilder(&o),
		entered: make(map[uint64]outcome), other: make([]byte, maxPacket+headroom),
	}
	if o.Against != nil {
		in.against = newRunner(o.Against, o.Ingress)
	}
	in.describe()
	return in
}

// describe sets the description, in which every source is an exit of the program.
func (in *Input) describe() {
	d := in.Input.Description()
	in.sources = capture.NewSourceList(&d)
	d.Files, d.ReasonName, d.LocationName, d.OutletName = nil, nil, nil, nil
	if o := in.options.Program.outlets; o != nil {
		d.OutletName = o.name
	}
	d.Sources = in.exits(d.Sources)
	if more := d.More; more != nil {
		d.More = func(come int) []capture.Source { return in.exits(more(come)) }
	}
	in.description = d
}

// exits returns sources that are the program's exits, on the interfaces of the given ones.
func (in *Input) exits(sources []capture.Source) []capture.Source {
	all := make([]capture.Source, len(sources))
	for i, s := range sources {
		all[i] = capture.Source{
			Name: cmp.Or(s.Name, s.Label()), Hook: capture.Exit, Target: capture.Program(in.options.Program.Named), Place: s.Place, Came: s.Came,
			Index: s.Index, Alias: s.Alias, Driver: s.Driver, MAC: s.MAC, Speed: s.Speed, Pod: s.Pod, SnapLen: s.SnapLen,
		}
	}
	return all
}

// Description returns the input's description, with the program's exits as sources.
func (in *Input) Description() capture.Description { return in.description }

// Close closes the wrapped input.
func (in *Input) Close() error {
	in.program.close()
	if in.against != nil {
		in.against.close()
	}
	return in.Input.Close()
}

// Read implements [capture.Input].
func (in *Input) Read(packets []capture.Packet, idle func()) (n int, err error) {
	for n == 0 && err == nil {
		var all int
		if all, err = in.Input.Read(packets, idle); all == 0 {
			break
		}
		in.sources.Update()
		for len(in.packets) < all {
			in.packets = append(in.packets, packet{})
		}
		for i := range packets[:all] {
			ran, replayErr := in.replay(&packets[i], &in.packets[n])
			if replayErr != nil {
				return n, replayErr
			}
			if ran {
				packets[n] = packets[i]
				n++
			}
		}
	}
	return n, err
}

// replay runs the program on a packet, compares the outcome, and replaces p by the packet that the
// program leaves, in the memory of to. ran is false if the program did not run: an XDP program
// would not get such a packet, or it ran already at the entry.
func (in *Input) replay(p *capture.Packet, to *packet) (ran bool, err error) {
	s := in.sources.Of(int(p.Source))
	if s.Hook == capture.Exit && in.compareExit(p, s) {
		return false, nil
	}
	if why := in.result.NotRun.counter(p, s, in.options.Direction); why != nil {
		*why++
		return false, nil
	}
	before := p.Data
	now, left, err := in.run(in.program, before, p.Queue, to.data[:])
	if err != nil {
		return false, err
	}
	if len(before) < int(p.WireLen) {
		in.result.Cut++
		now.leftHash = 0 // the rest of the packet may differ
	}
	one := compared{now: now, packet: p, before: before}
	if one.was, one.known, err = in.reference(p, s); err != nil {
		return false, err
	}
	if !one.known && s.Hook == capture.Entry {
		if len(in.entered) == maxEntered {
			clear(in.entered)
		}
		in.entered[p.ID] = now
	}
	in.result.add(&one)
	outlet, err := in.options.Program.outlets.last()
	if err != nil {
		return false, fmt.Errorf("ask where %v sends a packet: %w", in.options.Program, err)
	}
	to.facts = *p.Facts
	f := &to.facts
	f.Verdict, f.RunTime = now.verdict, uint32(now.took)
	f.WireLen = uint32(max(0, int(f.WireLen)+len(left)-len(before)))
	f.Dropped, f.Hash, f.HashKind, f.To, f.Reason, f.Location = 0, 0, capture.NoHash, outlet, 0, 0
	p.Facts, p.Data, p.Stored = f, left, nil
	return true, nil
}

// reference returns the outcome that a packet's outcome is compared with: that of Against, or the
// verdict in the capture.
func (in *Input) reference(p *capture.Packet, s *capture.Source) (was outcome, known bool, err error) {
	if in.against != nil {
		was, _, err = in.run(in.against, p.Data, p.Queue, in.other)
		return was, true, err
	}
	was.verdict, known = s.VerdictOf(p)
	return was, known, nil
}

// run runs a program on a packet.
func (in *Input) run(r *runner, data []byte, queue uint32, to []byte) (o outcome, left []byte, err error) {
	verdict, left, took, err := r.run(data, queue, to)
	if err != nil {
		return o, nil, fmt.Errorf("run %v on a packet of %d bytes: %w", r.program, len(data), err)
	}
	return outcome{verdict, max(0, took-r.program.idle), string(left) != string(data), maphash.Bytes(seed, left)}, left, nil
}

// compareExit compares a packet at the exit of the captured program with the outcome of Program for
// the same packet at the entry. hasEntry is false if the capture does not have the entry.
func (in *Input) compareExit(p *capture.Packet, s *capture.Source) (hasEntry bool) {
	id, hasID := s.IDOf(p)
	now, ok := in.entered[id]
	if !hasID || !ok {
		in.result.AsLeft++
		return false
	}
	delete(in.entered, id)
	if verdict, known := s.VerdictOf(p); known && in.against == nil {
		was := outcome{verdict: verdict}
		if len(p.Data) == int(p.WireLen) {
			was.leftHash = maphash.Bytes(seed, p.Data)
		}
		in.result.compare(&compared{now: now, was: was, known: true, packet: p, before: p.Data})
	}
	return true
}

// An outcome is the result of a program's run on a packet.
type outcome struct {
	verdict  xdp.Verdict
	took     time.Duration // the run time, less that of an empty program
	changed  bool          // the packet's bytes or length
	leftHash uint64        // a hash of the packet that it leaves; 0 = not known
}
