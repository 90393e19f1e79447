package drops

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	socketFrames    = 64 // in a socket's memory, and in its fill ring
	socketFrameSize = 2048
	socketRoom      = 16 // in its rx ring
)

// socket opens an AF_XDP socket at queue 0 of the receiving interface, with as many frames in its
// fill ring, and nobody who reads.
func (n *network) socket(frames int) (fd int) {
	n.Helper()
	memory, err := unix.Mmap(-1, 0, socketFrames*socketFrameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	n.must(err)
	n.Cleanup(func() { unix.Munmap(memory) })
	n.must(n.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	n.Cleanup(func() { unix.Close(fd) })
	area := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&memory[0]))), Len: uint64(len(memory)), Size: socketFrameSize}
	n.must(option(unix.SYS_SETSOCKOPT, fd, unix.XDP_UMEM_REG, unsafe.Pointer(&area), unsafe.Sizeof(area)))
	for ring, size := range map[int]int{unix.XDP_UMEM_FILL_RING: socketFrames, unix.XDP_UMEM_COMPLETION_RING: socketFrames, unix.XDP_RX_RING: socketRoom} {
		n.must(unix.SetsockoptInt(fd, unix.SOL_XDP, ring, size))
	}
	if frames > 0 {
		n.fill(fd, frames)
	}
	n.must(unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(n.RxIndex)}))
	return fd
}

// fill gives a socket frames for packets.
func (n *network) fill(fd, frames int) {
	n.Helper()
	var at unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(at))
	n.must(option(unix.SYS_GETSOCKOPT, fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&at), uintptr(unsafe.Pointer(&size))))
	ring, err := unix.Mmap(fd, unix.XDP_UMEM_PGOFF_FILL_RING, int(at.Fr.Desc)+8*socketFrames, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	n.must(err)
	n.Cleanup(func() { unix.Munmap(ring) })
	for i := range frames {
		binary.NativeEndian.PutUint64(ring[int(at.Fr.Desc)+8*i:], uint64(i*socketFrameSize))
	}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&ring[at.Fr.Producer])), uint32(frames))
}

func option(call uintptr, fd, name int, value unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall6(call, uintptr(fd), unix.SOL_XDP, uintptr(name), uintptr(value), size, 0); errno != 0 {
		return fmt.Errorf("option %d of an AF_XDP socket: %w", name, errno)
	}
	return nil
}

// toSocket makes the receiving interface's packets go to a socket.
func (n *network) toSocket(fd int, flags link.XDPAttachFlags) (id ebpf.MapID) {
	n.Helper()
	all, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	n.must(err)
	n.Cleanup(func() { all.Close() })
	n.must(all.Put(uint32(0), uint32(fd)))
	n.attach(asm.Instructions{
		asm.LoadMapPtr(asm.R1, all.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, int32(xdp.Drop)),
		asm.FnRedirectMap.Call(),
	}, flags)
	info, err := all.Info()
	n.must(err)
	id, _ = info.ID()
	return id
}

// A packet that an AF_XDP socket loses is counted once, with the reason: of its queue where the
// kernel tells the socket's statistics, else of the map.
func TestSockets(t *testing.T) {
	t.Parallel()
	const sent, before = 40, 5
	for _, test := range []struct {
		name   string
		frames int
		want   Loss
		lost   uint64
	}{
		{"empty fill ring", 0, Loss{Stage: XDP, Reason: noFrame}, sent},
		{"full rx ring", socketFrames, Loss{Stage: XDP, Reason: noRoom}, sent - socketRoom + before},
	} {
		for mode, flags := range map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode} {
			t.Run(test.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				n := newNetwork(t)
				id := n.toSocket(n.socket(test.frames), flags)
				n.send(9, before) // is not counted
				testnet.WaitHandled(n)
				m := n.openMeter()
				n.send(9, sent)
				want := test.want
				n.must(n.Rx.Do(func() error {
					want.Where = fmt.Sprintf("map %d", id)
					if _, err := netlink.SocketDiagXDP(); err == nil {
						want.Where = "queue 0"
					} else {
						t.Logf("by the redirect's error: %v", err)
					}
					return nil
				}))
				for range 2 { // the second time nothing is new
					got := make(map[Loss]uint64)
					for l, tally := range n.counts(m).Losses {
						if isStrange(l.Reason, l.Where) || l.Device == "?" {
							continue
						}
						got[l] = tally.Packets
					}
					if diff := cmp.Diff(map[Loss]uint64{want: test.lost}, got); diff != "" {
						t.Error(diff)
					}
				}
			})
		}
	}
}

// What a socket's statistics tell is taken from the failed redirects for the same reason, and from
// no others.
func TestSocketLosses(t *testing.T) {
	t.Parallel()
	s := netlink.XDPDiagStats{RxDropped: 10, FillRingEmpty: 7, RxFull: 4, TxInvalid: 2}
	if got := lossesOf(&s); got != (socketLosses{7, 3, 4, 2}) {
		t.Errorf("%+v", got)
	}
	s.FillRingEmpty = 1000 // by a driver that copies nothing
	if got := lossesOf(&s); got != (socketLosses{10, 0, 4, 2}) {
		t.Errorf("%+v", got)
	}
	loss := func(reason, device string) Loss {
		return Loss{Stage: XDP, Reason: reason, Where: "map 1", Device: device}
	}
	failed := map[Loss]uint64{
		loss(noFrame, ""): 5, loss(unfit, ""): 6, loss(noRoom, ""): 7, loss(noFrame, "eth1"): 8,
		loss(noFrame, meter.Gone): 3, loss(noRoom, meter.Gone): 200,
	}
	subtractFailures(failed, "", 9, noFrame, unfit)
	subtractFailures(failed, "", 100, noRoom)
	want := map[Loss]uint64{
		loss(noFrame, ""): 0, loss(unfit, ""): 2, loss(noRoom, ""): 0, loss(noFrame, "eth1"): 8,
		loss(noFrame, meter.Gone): 3, loss(noRoom, meter.Gone): 107,
	}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Error(diff)
	}
}

// If the kernel interrupts the first dump of the sockets, losses before the next one do not count.
func TestSocketsInterrupted(t *testing.T) {
	t.Parallel()
	dump := func(full uint64) []*netlink.XDPDiagInfoResp {
		info := &netlink.XDPInfo{Ifindex: 2, QueueID: 1, Stats: &netlink.XDPDiagStats{RxFull: full}}
		return []*netlink.XDPDiagInfoResp{{XDPDiagMsg: &netlink.XDPSocket{Cookie: [2]uint32{3, 4}}, XDPInfo: info}}
	}
	s := &sockets{sums: make(map[socketQueue]socketLosses)}
	s.update(nil, netlink.ErrDumpInterrupted)
	s.update(dump(500), nil)
	s.update(nil, netlink.ErrDumpInterrupted)
	s.update(dump(507), nil)
	if diff := cmp.Diff(uint64(7), s.sums[socketQueue{2, 1}].noRoom); diff != "" {
		t.Error(diff)
	}
}
