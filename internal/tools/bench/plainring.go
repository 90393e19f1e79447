package main

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/thread"
)

// A plainRing is a ring buffer of the kernel with records of one size, and the program that fills
// it. Copying out of it takes twice as long as out of the memory of a Go program, whose pages are
// larger.
type plainRing struct {
	closers
	data       []byte // twice in a row, so that no record is divided
	head, tail *uint64
	record     int // bytes, with its header
	prog       *ebpf.Program
	frame      []byte // that the program copies
}

// newPlainRing makes a ring of `size` bytes for records of `record` bytes.
func newPlainRing(size, record int) (r *plainRing, err error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(size)})
	if err != nil {
		return nil, fmt.Errorf("make a ring: %w", err)
	}
	defer m.Close() // the program and the mapping keep it
	const header, noWakeup = 8, 1
	bytes := int32(record - header)
	r = &plainRing{record: record, frame: testnet.UDPFrame(max(int(bytes), testnet.MinFrame), 0)}
	r.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R2, bytes),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Mov.Imm(asm.R4, bytes),
		asm.FnXdpLoadBytes.Call(),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.Mov.Imm(asm.R2, noWakeup),
		asm.FnRingbufSubmit.Call(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("full"),
		asm.Return(),
	}})
	if err != nil {
		return nil, fmt.Errorf("load the program that fills a ring: %w", err)
	}
	r.later(r.prog.Close)
	page := os.Getpagesize()
	tail, err := r.mmap(m, 0, page, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	rest, err := r.mmap(m, page, page+2*size, unix.PROT_READ)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.tail, r.head = (*uint64)(unsafe.Pointer(&tail[0])), (*uint64)(unsafe.Pointer(&rest[0]))
	r.data = rest[page:]
	return r, nil
}

func (r *plainRing) mmap(m *ebpf.Map, offset, length, access int) ([]byte, error) {
	b, err := unix.Mmap(m.FD(), int64(offset), length, access, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map a ring into memory: %w", err)
	}
	r.later(func() error { return unix.Munmap(b) })
	return b, nil
}

// fill puts n records into an empty ring.
func (r *plainRing) fill(n int) error {
	*r.tail = *r.head
	if _, err := r.prog.Run(&ebpf.RunOptions{Data: r.frame, Repeat: uint32(n)}); err != nil {
		return fmt.Errorf("fill a ring: %w", err)
	}
	if got := int(*r.head-*r.tail) / r.record; got != n {
		return fmt.Errorf("a ring holds %d of %d records", got, n)
	}
	return nil
}

// next returns the bytes from the start of the next record on.
func (r *plainRing) next() []byte {
	at := *r.tail % uint64(len(r.data)/2)
	*r.tail += uint64(r.record)
	return r.data[at:]
}

// copyDrain measures the least that a reader of filled rings does: a thread copies the bytes of a
// block of the file out of each record, and writes them. The rings were filled by CPUs as for
// xdpcap. The rate counts only the longer of the two steps, as if two threads did them.
func copyDrain(d *drainage, path string, runs int) (all *laps, err error) {
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	opened.later(out.Close)
	if path != nowhere {
		opened.later(func() error { return os.Remove(path) })
	}
	rings := make([]*plainRing, d.rings)
	for i := range rings {
		if rings[i], err = newPlainRing(d.ringSize(), recordSize(d.size)); err != nil {
			return nil, err
		}
		opened.later(rings[i].close)
	}
	all = &laps{}
	for range runs {
		for cpu, r := range rings {
			if err := thread.Quiet(cpu, func() error { return r.fill(d.perRing()) }); err != nil {
				return nil, err
			}
		}
		err := thread.Quiet(0, func() error {
			some := lap{packets: d.rings * d.perRing()}
			before, err := clock.ThreadTime()
			if err != nil {
				return err
			}
			if some.took, err = copyBlocks(out, rings, d.perRing(), blockSize(d.size)); err != nil {
				return err
			}
			after, err := clock.ThreadTime()
			some.cpu = after - before
			all.all = append(all.all, some)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// copyBlocks copies a block out of each record of rings and writes them. It returns the time of the
// slower one of the two.
func copyBlocks(out *os.File, rings []*plainRing, perRing, block int) (time.Duration, error) {
	chunk := make([]byte, 256<<10)
	began, n, writing := time.Now(), 0, time.Duration(0)
	write := func() error {
		start := time.Now()
		_, err := out.Write(chunk[:n])
		writing += time.Since(start)
		n = 0
		return err
	}
	for range perRing {
		for _, r := range rings {
			if n+block > len(chunk) {
				if err := write(); err != nil {
					return 0, err
				}
			}
			n += copy(chunk[n:n+block], r.next())
		}
	}
	err := write()
	return max(writing, time.Since(began)-writing), err
}
