package testnet

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGRO turns an interface's generic receive offload on, as ethtool -K does. It runs inside the
// namespace. With GRO a veth polls (NAPI), and only a polling interface accepts redirected frames.
func setGRO(ifname string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)

	value := struct{ cmd, data uint32 }{unix.ETHTOOL_SGRO, 1} // struct ethtool_value
	ifreq := struct {                                         // the part of struct ifreq used, linux/if.h
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(ifreq.name[:unix.IFNAMSIZ-1], ifname)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	runtime.KeepAlive(&value)
	if errno != 0 {
		return fmt.Errorf("turn on GRO of %s: %w", ifname, errno)
	}
	return nil
}
