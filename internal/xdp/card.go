package xdp

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// IsHardware reports whether the interface has a device on a bus of the machine or of its
// hypervisor. Metadata from other drivers, such as veth's, comes from software.
func (ifi *Interface) IsHardware() bool { return ifi.Device != "" }

// PTPClock returns the number N of the card's clock, /dev/ptpN. ok is false if there is no clock,
// or if the driver does not report it.
func (ifi *Interface) PTPClock() (number int, ok bool) {
	e, err := openEthtool(ifi.Name)
	if err != nil {
		return 0, false
	}
	defer e.close()
	info, err := unix.IoctlGetEthtoolTsInfo(e.fd, e.name)
	if err != nil || info.Phc_index < 0 {
		return 0, false
	}
	return int(info.Phc_index), true
}

// toeplitz is ETH_RSS_HASH_TOP of include/linux/ethtool.h.
const toeplitz = 1 << 0

// HasToeplitz reports whether the card computes Toeplitz hashes for receive side scaling. It is
// false if the driver does not report that.
func (ifi *Interface) HasToeplitz() bool {
	e, err := openEthtool(ifi.Name)
	if err != nil {
		return false
	}
	defer e.close()
	rss := struct { // ethtool_rxfh
		cmd, context          uint32
		tableSize, keySize    uint32 // 0: the request is for neither
		function, transformed uint8
		_                     [2]uint8
		_                     uint32
	}{cmd: unix.ETHTOOL_GRSSH}
	return e.fill(unsafe.Pointer(&rss)) && rss.function == toeplitz
}

// A Stamping is the setting of a card that it stamps all received packets. Close restores the
// former setting, and needs CAP_NET_ADMIN. A killed process leaves the setting behind.
type Stamping struct {
	name   string
	before unix.HwTstampConfig
}

// ErrStamping means that the kernel or the card refuses the request to stamp all packets. The card
// may stamp some or all of them nevertheless.
var ErrStamping = errors.New("the card's driver does not let packets be stamped on request")

// StampAll makes the interface's card stamp all packets. It returns nil if the card already does.
func StampAll(ifi *Interface) (*Stamping, error) {
	e, err := openEthtool(ifi.Name)
	if err != nil {
		return nil, err
	}
	defer e.close()
	before, err := unix.IoctlGetHwTstamp(e.fd, e.name)
	if err != nil { // without the old setting it could not be restored
		return nil, message.Errorf(ErrStamping, "ask how the card of %s stamps packets: driver %s: %w", ifi.Name, ifi.Driver, os.NewSyscallError("SIOCGHWTSTAMP", err))
	}
	if before.Rx_filter == unix.HWTSTAMP_FILTER_ALL {
		return nil, nil
	}
	s := &Stamping{name: ifi.Name, before: *before}
	all := *before
	all.Rx_filter = unix.HWTSTAMP_FILTER_ALL
	if err := unix.IoctlSetHwTstamp(e.fd, e.name, &all); err != nil {
		return nil, message.Errorf(ErrStamping, "let the card of %s stamp all packets: driver %s: %w", ifi.Name, ifi.Driver, os.NewSyscallError("SIOCSHWTSTAMP", err))
	}
	if all.Rx_filter != unix.HWTSTAMP_FILTER_ALL { // the driver returns the setting that it chose
		return nil, errors.Join(message.Errorf(ErrStamping, "let the card of %s stamp all packets: driver %s stamps only some", ifi.Name, ifi.Driver), s.Close())
	}
	return s, nil
}

// Close restores the old setting.
func (s *Stamping) Close() error {
	e, err := openEthtool(s.name)
	if err != nil {
		return err
	}
	defer e.close()
	before := s.before
	if err := unix.IoctlSetHwTstamp(e.fd, e.name, &before); err != nil {
		return fmt.Errorf("put back how the card of %s stamps packets: %w", s.name, os.NewSyscallError("SIOCSHWTSTAMP", err))
	}
	return nil
}
