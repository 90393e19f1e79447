package xdp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolSettings is struct ethtool_cmd of include/uapi/linux/ethtool.h, which x/sys does not have.
type ethtoolSettings struct {
	cmd         uint32
	supported   uint32
	advertising uint32
	speed       uint16 // Mbit/s, lower half
	_           [6]uint8
	_           [2]uint32
	speedHigh   uint16
	_           [2]uint8
	_           [3]uint32
}

// linkSpeed returns bit/s, or 0 where the driver does not know: ETHTOOL_GSET, which the kernel still
// answers for drivers that only have its successor.
func linkSpeed(fd int, name string) uint64 {
	settings := ethtoolSettings{cmd: unix.ETHTOOL_GSET}
	ifr := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&settings)}
	copy(ifr.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)))
	mbits := uint32(settings.speedHigh)<<16 | uint32(settings.speed)
	if errno != 0 || mbits == 1<<32-1 {
		return 0
	}
	return uint64(mbits) * 1e6
}
