package capture

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// mixedRings is a reader of rings with all that can be in them, the same for the same seed: packets
// of all lengths, losses, tags beside them, damaged records, and a perf ring besides shared ones.
func mixedRings(seed uint64, shared int, limit uint64) *probe.Reader {
	random := rand.New(rand.NewPCG(seed, 0))
	perf := int(1 - seed%2)
	memory := ring.NewMemory(1<<16, shared, perf)
	r := &probe.Reader{
		Rings:       memory.Set,
		Lost:        ring.Losses{Slots: 2},
		Ledger:      probe.NewLedger(2, limit),
		SnapLen:     1500,
		Weighted:    seed%3 != 0,
		FinishesAll: seed%3 == 0,
		Stop:        func() {},
	}
	rings := shared + perf
	dropped := make([][2]uint64, rings)
	for i := range 1000 {
		cpu := random.IntN(rings)
		packet := packetOf(1+random.IntN(map[bool]int{true: 1500, false: 100}[random.IntN(10) == 0]), byte(i))
		f := ring.NewRecord(packet, uint64(1000+i-random.IntN(2)))
		f.Source = uint16(random.IntN(2))
		f.ID = uint64(cpu)<<kernel.SamplerLimitID_CPU_SHIFT | uint64(i)
		f.Weight, f.Verdict, f.Queue = uint32(random.IntN(3)), Verdict(random.IntN(5)), uint32(i)
		if random.IntN(10) == 0 {
			dropped[cpu][f.Source]++
		}
		f.Dropped = dropped[cpu][f.Source]
		switch random.IntN(50) {
		case 0:
			f.TagProtocol, f.Tag = 0x0081, 7
		case 1:
			f.Cookie++
		case 2:
			f.Source = 2
		case 3:
			f.WireLen--
		case 4:
			f.GSOSize = 1448
		case 5:
			f.To = 3
		}
		memory.Put(cpu, f, packet)
	}
	return r
}

// A batchOutput is a DirectOutput that keeps its blocks in memory.
type batchOutput struct {
	memory
	enc    *Encoder
	blocks []byte
	ends   []BlockEnd
	batch  Batch
	direct int // packets that came directly
}

func newBatchOutput() *batchOutput {
	d := describeTwo()
	return &batchOutput{enc: NewEncoder(&d, EncoderOptions{}), batch: Batch{Blocks: make([]byte, 0, 32<<10), Ends: make([]BlockEnd, 0, 200)}}
}

func (o *batchOutput) Write(packets []Packet) error {
	for i := range packets {
		p := &packets[i]
		o.blocks = o.enc.Append(o.blocks, p)
		o.ends = append(o.ends, BlockEnd{int64(len(o.blocks)), p.Time, uint32(len(p.Data)), uint32(p.Source)})
	}
	return nil
}

func (o *batchOutput) WriteDirect(take func(*Encoder, *Batch) int) error {
	b := o.batch
	b.Start = int64(len(o.blocks))
	o.direct += take(o.enc, &b)
	o.blocks, o.ends = append(o.blocks, b.Blocks...), append(o.ends, b.Ends...)
	return nil
}

// What an output takes right out of the rings is, to the byte, what it gets by groups, and so are
// the accounts: whatever is in the rings, and wherever the capture ends.
func TestDirect(t *testing.T) {
	t.Parallel()
	taken, seeds := 0, testnet.Volume(60)
	for seed := range seeds {
		limit := map[bool]uint64{true: 300, false: 0}[seed%5 == 0]
		var outputs [2]*batchOutput
		var counts [2]Accounts
		for i := range outputs {
			r := mixedRings(seed, int(1+seed%4), limit)
			r.Rings.Gather(math.MaxUint64)
			out := newBatchOutput()
			packets := make([]Packet, ring.GroupSize)
			for r.Rings.IsReady() {
				if i == 0 {
					out.WriteDirect(func(e *Encoder, into *Batch) int { return writePlain(r, e, into) })
				}
				out.Write(packets[:r.Take(packets)])
			}
			taken += out.direct
			outputs[i], counts[i] = out, r.Ledger.Counts()
			if r.Taken.Load() != counts[i].Total().Captured {
				t.Errorf("seed %d: %d packets were handed on, of %+v", seed, r.Taken.Load(), counts[i])
			}
		}
		if !bytes.Equal(outputs[0].blocks, outputs[1].blocks) {
			t.Errorf("seed %d: the blocks differ, of %d and %d bytes", seed, len(outputs[0].blocks), len(outputs[1].blocks))
		}
		same(t, outputs[1].ends, outputs[0].ends, "seed %d", seed)
		same(t, counts[1], counts[0], "seed %d", seed)
	}
	if taken*60 < 5_000*int(seeds) {
		t.Errorf("%d packets were taken directly", taken)
	}
}

// While packets are taken right out of the rings the goroutine reads, and before that it writes. So
// the output is not blamed for a reader that is too slow.
func TestDirectIsReading(t *testing.T) {
	t.Parallel()
	const wrote = 10 * time.Millisecond
	r, out := mixedRings(1, 1, 0), newBatchOutput()
	r.Rings.Gather(math.MaxUint64)
	r.Laps.Begin()
	time.Sleep(wrote)
	began := time.Now()
	out.WriteDirect(func(e *Encoder, into *Batch) int { return writePlain(r, e, into) })
	most := time.Since(began)
	spent := r.Laps.End()
	if out.direct == 0 || spent[probe.Reading] <= 0 || spent[probe.Reading] > most || spent[probe.Writing] < wrote {
		t.Errorf("%d packets taken within %v: %v", out.direct, most, spent)
	}
}

// Only the only output of a session takes packets right out of the rings.
func TestDirectly(t *testing.T) {
	t.Parallel()
	out := newBatchOutput()
	for i, test := range []struct {
		from    Input
		outputs []Output
		want    bool
	}{
		{new(Session), []Output{out}, true}, {new(Session), []Output{out, new(memory)}, false}, {new(Session), []Output{new(memory)}, false},
		{new(Session), nil, false}, {struct{ Input }{new(Session)}, []Output{out}, false},
	} {
		if got, _ := directPath(test.from, test.outputs); (got != nil) != test.want {
			t.Errorf("%d: taken directly: %v", i, got)
		}
	}
}
