package ring

import (
	"errors"
	"os"
	"testing"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The rings, with what each takes besides its records, take at most a quarter of the available
// memory. Those that nobody has asked for are made smaller. Those that somebody has are refused.
func TestFitBuffer(t *testing.T) {
	t.Parallel()
	perfPage := os.Getpagesize()
	for _, test := range []struct {
		name      string
		asked     int
		cpus      int
		available int
		want      int
		notice    string
		err       string
	}{
		{"default", 0, 2, 1 << 30, DefaultSize, "", ""},
		{"rounded", 129 << 10, 2, 1 << 30, 256 << 10, "", ""},
		{"exactly a quarter", 0, 32, 1<<30 + 4*32*perfPage, DefaultSize, "", ""},
		{"a page too much", 0, 32, 1<<30 + 4*31*perfPage, DefaultSize / 2,
			"rings of 8 MiB for 32 CPUs would take more than a quarter of the available memory, which is 1024 MiB: ring size lowered to 4 MiB", ""},
		{"default is too much", 0, 256, 4 << 30, 2 << 20,
			"rings of 8 MiB for 256 CPUs would take more than a quarter of the available memory, which is 4096 MiB: ring size lowered to 2 MiB", ""},
		{"never below the least", 0, 256, 64 << 20, MinSize,
			"rings of 8 MiB for 256 CPUs would take more than a quarter of the available memory, which is 64 MiB: ring size lowered to 128 KiB", ""},
		{"asked for too much", 1 << 30, 2, 4 << 30, 0, "",
			"rings of 1024 MiB for 2 CPUs would take more than a quarter of the available memory, which is 4096 MiB: at most 256 MiB fit"},
		{"the least is taken", MinSize, 1024, 64 << 20, MinSize, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var notice string
			o := Options{Size: test.asked, Notice: func(err error) { notice += err.Error() }}
			whySmaller, err := o.fitInto(ringMemory{cpus: test.cpus, each: perfMemory, available: machine.Memory{Bytes: uint64(test.available)}})
			o.notice(whySmaller)
			if test.err != "" {
				if !errors.Is(err, support.ErrBufferTooLarge) || err.Error() != test.err {
					t.Errorf("the error %v, want %s", err, test.err)
				}
				return
			}
			testnet.Must(t, err)
			if o.Size != test.want {
				t.Errorf("rings of %d bytes, want %d", o.Size, test.want)
			}
			if notice != test.notice {
				t.Errorf("the notice %q, want %q", notice, test.notice)
			}
		})
	}
}

// What comes after the records of a shared ring counts, too: as much as a record can have.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	for _, size := range []int{MinSize, DefaultSize} {
		if got, least := sharedMemory(size), size+maxRingRecord; got < least || got%os.Getpagesize() != 0 {
			t.Errorf("a ring of %d bytes takes %d, want %d or more, in whole pages", size, got, least)
		}
	}
	m := ringMemory{cpus: 2, each: sharedMemory, available: machine.Memory{Bytes: 4 * 2 * DefaultSize}}
	if got := m.affordable(DefaultSize); got != DefaultSize/2 {
		t.Errorf("rings of %d bytes fit", got)
	}
}

// A ring that is enough has room for what was lost besides what it held, and is one that can be
// had.
func TestEnough(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		transport Transport
		size      int
		lost      uint64
		want      int
	}{
		{TransportPerf, 1000, 1, 2 * MinSize},
		{TransportPerf, 64, 712, 2 * MinSize},
		{TransportPerf, 64, 713, 4 * MinSize},
		{TransportPerf, 1000, 1 << 40, 0},
		{TransportRing, 64, 712, 2 * MinSize},
		{TransportRing, 64, 1 << 22, 0},
	} {
		r := Options{Size: MinSize, Transport: test.transport}
		if got := r.Enough(test.size, test.lost); got != test.want {
			t.Errorf("%v: %d packets of %d bytes more than it holds: %d, want %d", test.transport, test.lost, test.size, got, test.want)
		}
	}
}
