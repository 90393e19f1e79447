package capture

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A doorbell is a BPF ring buffer of one page. The programs write to it when a ring asks to be
// read, because a write to shared memory does not wake a process.
type doorbell struct {
	fd                 int
	consumer, producer []byte // the pages that hold the two positions
}

func openDoorbell(m *ebpf.Map) (b *doorbell, err error) {
	b = &doorbell{fd: m.FD()}
	page := os.Getpagesize()
	if b.consumer, err = unix.Mmap(b.fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the doorbell of the rings into memory: %w", err)
	}
	if b.producer, err = unix.Mmap(b.fd, int64(page), page, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the doorbell of the rings into memory: %w", err), b.close())
	}
	return b, nil
}

// clear empties the ring buffer, so that it can ring again.
func (b *doorbell) clear() {
	position := atomic.LoadUint64((*uint64)(unsafe.Pointer(&b.producer[0])))
	consumer := (*uint64)(unsafe.Pointer(&b.consumer[0]))
	if atomic.LoadUint64(consumer) != position {
		atomic.StoreUint64(consumer, position)
	}
}

func (b *doorbell) close() error {
	errs := []error{unix.Munmap(b.consumer)}
	if b.producer != nil {
		errs = append(errs, unix.Munmap(b.producer))
	}
	return errors.Join(errs...)
}
