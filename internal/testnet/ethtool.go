package testnet

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGRO turns an interface's generic receive offload on, as ethtool -K does. It runs inside the
// namespace. With GRO a veth polls (NAPI), and only a polling interface accepts redirected frames.
func setGRO(ifname string) error {
	return setOffload(ifname, unix.ETHTOOL_SGRO, 1)
}

// SplitInStack turns an interface's segmentation offload off: it gets TCP's segments one by one. It
// runs inside the namespace.
func SplitInStack(ifname string) error {
	return errors.Join(setOffload(ifname, unix.ETHTOOL_STSO, 0), setOffload(ifname, unix.ETHTOOL_SGSO, 0))
}

func setOffload(ifname string, command, to uint32) error {
	value := struct{ cmd, data uint32 }{command, to} // struct ethtool_value
	if err := ethtool(ifname, unsafe.Pointer(&value)); err != nil {
		return fmt.Errorf("set an offload of %s: %w", ifname, err)
	}
	return nil
}

// HalveRing halves the receive ring of a card, as ethtool -G does. It runs inside the namespace.
func HalveRing(ifname string) error {
	rings := struct { // struct ethtool_ringparam
		cmd uint32
		_   [4]uint32 // the maxima
		rx  uint32
		_   [3]uint32
	}{cmd: unix.ETHTOOL_GRINGPARAM}
	err := ethtool(ifname, unsafe.Pointer(&rings))
	if err == nil {
		rings.cmd, rings.rx = unix.ETHTOOL_SRINGPARAM, rings.rx/2
		err = ethtool(ifname, unsafe.Pointer(&rings))
	}
	if err != nil {
		return fmt.Errorf("halve the ring of %s: %w", ifname, err)
	}
	return nil
}

// ethtool sends a request, which begins with its command, to an interface's driver.
func ethtool(ifname string, request unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)

	ifreq := struct { // the part of struct ifreq used, linux/if.h
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: request}
	copy(ifreq.name[:unix.IFNAMSIZ-1], ifname)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	runtime.KeepAlive(request)
	if errno != 0 {
		return errno
	}
	return nil
}
