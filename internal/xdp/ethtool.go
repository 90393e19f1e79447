package xdp

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An ethtool asks drivers through ioctls of include/uapi/linux/ethtool.h. Not every driver answers
// everything: what it does not know stays zero, or nil.
type ethtool struct {
	fd   int
	name string
}

func openEthtool(name string) (ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return ethtool{fd, name}, err
}

func (e ethtool) close() { unix.Close(e.fd) }

// ask has the kernel fill a request; the pointer is to a struct that begins with the command.
func (e ethtool) ask(request unsafe.Pointer) bool {
	ifr := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: request}
	copy(ifr.name[:unix.IFNAMSIZ-1], e.name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)))
	runtime.KeepAlive(request)
	return errno == 0
}

func (e ethtool) driver() string {
	info, err := unix.IoctlGetEthtoolDrvinfo(e.fd, e.name)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

// speed returns bit/s: ETHTOOL_GSET, which the kernel still answers for drivers that only have its
// successor.
func (e ethtool) speed() uint64 {
	settings := struct { // ethtool_cmd
		cmd         uint32
		supported   uint32
		advertising uint32
		speed       uint16 // Mbit/s, lower half
		_           [6]uint8
		_           [2]uint32
		speedHigh   uint16
		_           [2]uint8
		_           [3]uint32
	}{cmd: unix.ETHTOOL_GSET}
	ok := e.ask(unsafe.Pointer(&settings))
	mbits := uint32(settings.speedHigh)<<16 | uint32(settings.speed)
	if !ok || mbits == 1<<32-1 {
		return 0
	}
	return uint64(mbits) * 1e6
}

// What unix.ETHTOOL_GFLAGS answers: enum ethtool_flags.
const (
	flagRxVLAN = 1 << 8
	flagLRO    = 1 << 15
)

// offloads tells whether two of the receive offloads are on.
func (e ethtool) offloads() (lro, rxVLAN *bool) {
	value := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_GFLAGS}
	if !e.ask(unsafe.Pointer(&value)) {
		return nil, nil
	}
	l, v := value.data&flagLRO != 0, value.data&flagRxVLAN != 0
	return &l, &v
}

// rxQueues is how many queues receive now.
func (e ethtool) rxQueues() int {
	channels := struct { // ethtool_channels
		cmd                           uint32
		_, _, _, _                    uint32 // the most there can be
		rxCount, txCount, other, both uint32
	}{cmd: unix.ETHTOOL_GCHANNELS}
	if !e.ask(unsafe.Pointer(&channels)) {
		return 0
	}
	return int(channels.rxCount + channels.both)
}
