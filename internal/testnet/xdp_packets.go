package testnet

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// XDPPackets is how many packets Rx's XDP hook has seen in native mode since the pair was made: the
// driver counts them, whatever program is attached. While a program is being attached or detached
// the count may be off by a packet or two, so send nothing then.
func (p *Pair) XDPPackets() (packets uint64, err error) {
	err = p.Rx.Do(func() error {
		link, err := netlink.LinkByIndex(p.RxIndex) // a test may have renamed it
		if err != nil {
			return err
		}
		counters, err := driverCounters(link.Attrs().Name)
		for name, value := range counters {
			if strings.HasSuffix(name, "_xdp_packets") && strings.HasPrefix(name, "rx_queue_") {
				packets += value
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the driver's counters of %s: %w", p.RxName, err)
	}
	return packets, nil
}

// Names of linux/ethtool.h.
const (
	ethtoolNameSize    = 32 // ETH_GSTRING_LEN
	ethtoolCounters    = 1  // ETH_SS_STATS
	ethtoolMaxCounters = 1024
)

// driverCounters returns what `ethtool -S` prints. It runs inside the namespace.
func driverCounters(ifname string) (map[string]uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)

	info, err := unix.IoctlGetEthtoolDrvinfo(fd, ifname)
	if err != nil {
		return nil, err
	}
	n := int(info.N_stats)
	if n > ethtoolMaxCounters {
		return nil, fmt.Errorf("%d counters are more than expected", n)
	}
	// struct ethtool_gstrings and struct ethtool_stats: a head of so many numbers, then the values.
	names := make([]byte, 3*4+n*ethtoolNameSize)
	binary.NativeEndian.PutUint32(names[0:], unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(names[4:], ethtoolCounters)
	binary.NativeEndian.PutUint32(names[8:], uint32(n))
	values := make([]byte, 2*4+n*8)
	binary.NativeEndian.PutUint32(values[0:], unix.ETHTOOL_GSTATS)
	binary.NativeEndian.PutUint32(values[4:], uint32(n))
	for _, request := range [][]byte{names, values} {
		if err := askDriver(fd, ifname, unsafe.Pointer(&request[0])); err != nil {
			return nil, err
		}
		runtime.KeepAlive(request)
	}
	counters := make(map[string]uint64, n)
	for i := range n {
		name := unix.ByteSliceToString(names[3*4+i*ethtoolNameSize:][:ethtoolNameSize])
		counters[name] = binary.NativeEndian.Uint64(values[2*4+i*8:])
	}
	return counters, nil
}

// askDriver calls an interface's driver with a request of linux/ethtool.h.
func askDriver(fd int, ifname string, request unsafe.Pointer) error {
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
