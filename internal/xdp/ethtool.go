package xdp

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An ethtool queries an interface's driver by the ioctls of include/uapi/linux/ethtool.h. A query
// that the driver does not support returns zero or nil.
type ethtool struct {
	fd   int
	name string
}

func openEthtool(name string) (ethtool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE) // any family will do: the sandbox has this one
	return ethtool{fd, name}, err
}

func (e ethtool) close() { unix.Close(e.fd) }

// fill makes the kernel fill in the struct that request points to. The struct begins with the
// command.
func (e ethtool) fill(request unsafe.Pointer) bool { return e.request(request) == nil }

// request is fill, and returns the kernel's error.
func (e ethtool) request(request unsafe.Pointer) error {
	ifr := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: request}
	copy(ifr.name[:unix.IFNAMSIZ-1], e.name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)))
	runtime.KeepAlive(request)
	if errno != 0 {
		return errno
	}
	return nil
}

func (e ethtool) driver() string {
	info, err := unix.IoctlGetEthtoolDrvinfo(e.fd, e.name)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

// speed returns bit/s. It uses the old command ETHTOOL_GSET, because the kernel translates that for
// drivers that only support its successor.
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
	ok := e.fill(unsafe.Pointer(&settings))
	mbits := uint32(settings.speedHigh)<<16 | uint32(settings.speed)
	if !ok || mbits == 1<<32-1 {
		return 0
	}
	return uint64(mbits) * 1e6
}

// Bits in the answer to unix.ETHTOOL_GFLAGS: enum ethtool_flags.
const (
	flagRxVLAN = 1 << 8
	flagLRO    = 1 << 15
)

// rxQueues returns the number of queues in use for received packets; 0 = unknown.
func (e ethtool) rxQueues() int {
	channels := struct { // ethtool_channels
		cmd                           uint32
		_, _, _, _                    uint32 // the largest possible numbers
		rxCount, txCount, other, both uint32
	}{cmd: unix.ETHTOOL_GCHANNELS}
	if !e.fill(unsafe.Pointer(&channels)) {
		return 0
	}
	return int(channels.rxCount + channels.both)
}

// Offloads reports whether the network card joins packets (LRO) and removes VLAN tags before the
// XDP hook; nil = the driver does not report it.
func (ifi *Interface) Offloads() (lro, rxVLAN *bool) {
	e, err := openEthtool(ifi.Name)
	if err != nil {
		return nil, nil
	}
	defer e.close()
	flags := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_GFLAGS}
	if !e.fill(unsafe.Pointer(&flags)) {
		return nil, nil
	}
	return new(flags.data&flagLRO != 0), new(flags.data&flagRxVLAN != 0)
}

// ActiveQueues returns the number of queues in use for received packets; 0 = unknown.
func (ifi *Interface) ActiveQueues() int {
	e, err := openEthtool(ifi.Name)
	if err == nil {
		defer e.close()
		if n := e.rxQueues(); n > 0 {
			return n
		}
	}
	return ifi.queueDirectories()
}

// queueDirectories counts the interface's receive queues in sysfs; 0 = the interface is not there.
// /sys has the network namespace in which it was mounted. If that is not the caller's, another
// interface may have the same name, but not the same index and address.
func (ifi *Interface) queueDirectories() (n int) {
	dir := "/sys/class/net/" + ifi.Name
	index, _ := os.ReadFile(dir + "/ifindex")
	address, _ := os.ReadFile(dir + "/address")
	if string(index) != strconv.Itoa(ifi.Index)+"\n" || ifi.MAC != nil && string(address) != ifi.MAC.String()+"\n" {
		return 0
	}
	entries, err := os.ReadDir(dir + "/queues")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "rx-") {
			n++
		}
	}
	return n
}

// Constants of include/uapi/linux/ethtool.h that package unix lacks.
const (
	ethtoolNameSize    = 32      // ETH_GSTRING_LEN
	ethtoolCounters    = 1       // ETH_SS_STATS
	ethtoolMaxCounters = 1 << 16 // no driver has as many; limits the memory for an answer
)

// DriverCounters returns the counters of an interface's driver by their names, as `ethtool -S`
// prints them. Many drivers of virtual interfaces have no counters.
func DriverCounters(name string) (map[string]uint64, error) {
	e, err := openEthtool(name)
	if err != nil {
		return nil, fmt.Errorf("ask the driver of %s for its counters: %w", name, err)
	}
	defer e.close()
	info, err := unix.IoctlGetEthtoolDrvinfo(e.fd, name)
	if err != nil || info.N_stats == 0 || info.N_stats > ethtoolMaxCounters {
		return nil, nil // no driver, or one without counters
	}
	n := int(info.N_stats)
	names, err := e.names(ethtoolCounters, info.N_stats)
	values := make([]byte, 2*4+n*8) // struct ethtool_stats: a head of 32-bit numbers, then the values
	binary.NativeEndian.PutUint32(values[0:], unix.ETHTOOL_GSTATS)
	binary.NativeEndian.PutUint32(values[4:], info.N_stats)
	if err != nil || !e.fill(unsafe.Pointer(&values[0])) {
		return nil, fmt.Errorf("the driver of %s does not tell its counters", name)
	}
	counters := make(map[string]uint64, n)
	for i, key := range names {
		counters[key] = binary.NativeEndian.Uint64(values[2*4+i*8:])
	}
	return counters, nil
}

// names returns the first n names of a set of strings, ETH_SS_*.
func (e ethtool) names(set, n uint32) (names []string, err error) {
	text := make([]byte, 3*4+int(n)*ethtoolNameSize) // struct ethtool_gstrings: a head of 32-bit numbers
	binary.NativeEndian.PutUint32(text[0:], unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(text[4:], set)
	binary.NativeEndian.PutUint32(text[8:], n)
	if err := e.request(unsafe.Pointer(&text[0])); err != nil {
		return nil, err
	}
	for i := range int(n) {
		names = append(names, unix.ByteSliceToString(text[3*4+i*ethtoolNameSize:][:ethtoolNameSize]))
	}
	return names, nil
}
