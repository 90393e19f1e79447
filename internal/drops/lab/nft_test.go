package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The families of nftables, and its hooks in those of IP and of bridges.
const (
	familyInet   = 1
	familyNetdev = 5
	familyBridge = 7

	hookPrerouting  = 0
	hookInput       = 1
	hookForward     = 2
	hookOutput      = 3
	hookPostrouting = 4

	hookIngress = 0 // of the family netdev
	hookEgress  = 1
)

// A chain of nftables, with one rule.
type chain struct {
	family, hook int
	device       string // of the family netdev
	kind         string // "filter" if ""
	policy       uint32 // accept if 1, drop if 0
	rule         [][]byte
}

const accept = 1

// An attr is an attribute of netlink.
func attr(kind int, parts ...[]byte) []byte {
	data := slices.Concat(parts...)
	b := make([]byte, 4, 4+len(data)+3)
	binary.NativeEndian.PutUint16(b, uint16(4+len(data)))
	binary.NativeEndian.PutUint16(b[2:], uint16(kind))
	b = append(b, data...)
	return append(b, make([]byte, -len(b)&3)...)
}

func nested(kind int, parts ...[]byte) []byte { return attr(kind|unix.NLA_F_NESTED, parts...) }
func text(kind int, s string) []byte          { return attr(kind, append([]byte(s), 0)) }
func number(kind int, n uint32) []byte        { return attr(kind, binary.BigEndian.AppendUint32(nil, n)) }

func expression(name string, attrs ...[]byte) []byte {
	return nested(1, text(1, name), nested(2, attrs...))
}

// value loads bytes into a register: 1 is the first of 16 bytes.
func value(register uint32, b []byte) []byte {
	return expression("immediate", number(1, register), nested(2, attr(1, b)))
}

// dropTo is a rule that drops packets to a port. It counts them.
func dropTo(port uint16) [][]byte {
	const transport, at, size, equal = 2, 2, 2, 0
	return [][]byte{
		expression("payload", number(1, 1), number(2, transport), number(3, at), number(4, size)),
		expression("cmp", number(1, 1), number(2, equal), nested(3, attr(1, []byte{byte(port >> 8), byte(port)}))),
		expression("counter"),
		expression("immediate", number(1, 0), nested(2, nested(2, number(1, 0)))),
	}
}

// rejectTo is a rule that refuses packets to a port with an answer of ICMP.
func rejectTo(port uint16) [][]byte {
	const unreachable, portCode = 0, 3
	return append(dropTo(port)[:3], expression("reject", number(1, unreachable), attr(2, []byte{portCode})))
}

// snatTo is a rule that leaves new connections one port of an address as their source.
func snatTo(address []byte, port uint16) [][]byte {
	const snat, ipv4 = 0, 2
	return [][]byte{
		value(1, address), value(2, []byte{byte(port >> 8), byte(port)}),
		expression("nat", number(1, snat), number(2, ipv4), number(3, 1), number(4, 1), number(5, 2), number(6, 2)),
	}
}

// addChain adds a table with a chain to the receiving side.
func (l *lab) addChain(c chain) {
	l.Helper()
	const (
		subsystem                          = unix.NFNL_SUBSYS_NFTABLES
		newTable, newChain, newRule        = 0, 3, 6
		batchBegin, batchEnd               = 0x10, 0x11
		create                             = unix.NLM_F_CREATE | unix.NLM_F_ACK
		priority                    uint32 = 0
	)
	sequence := uint32(0)
	message := func(kind, family int, flags uint16, attrs ...[]byte) []byte {
		sequence++
		resource := uint16(0)
		if kind == batchBegin || kind == batchEnd {
			resource = htons(subsystem)
		}
		body := append([]byte{byte(family), 0}, binary.NativeEndian.AppendUint16(nil, resource)...)
		body = append(body, slices.Concat(attrs...)...)
		h := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		h = binary.NativeEndian.AppendUint16(h, uint16(kind))
		h = binary.NativeEndian.AppendUint16(h, unix.NLM_F_REQUEST|flags)
		h = binary.NativeEndian.AppendUint32(h, sequence)
		return append(append(h, 0, 0, 0, 0), body...)
	}
	hook := [][]byte{number(1, uint32(c.hook)), number(2, priority)}
	if c.device != "" {
		hook = append(hook, text(3, c.device))
	}
	batch := slices.Concat(
		message(batchBegin, 0, 0),
		message(subsystem<<8|newTable, c.family, create, text(1, "t")),
		message(subsystem<<8|newChain, c.family, create, text(1, "t"), text(3, "c"), nested(4, hook...), number(5, c.policy), text(7, or(c.kind, "filter"))),
	)
	acks := 2
	if c.rule != nil {
		batch = append(batch, message(subsystem<<8|newRule, c.family, create|unix.NLM_F_APPEND, text(1, "t"), text(2, "c"), nested(4, c.rule...))...)
		acks++
	}
	batch = append(batch, message(batchEnd, 0, 0)...)
	err := l.Rx.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		l.must(unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		buf := make([]byte, 1<<16)
		for acks > 0 {
			size, _, err := unix.Recvfrom(fd, buf, 0)
			l.must(err)
			for rest := buf[:size]; len(rest) >= 20; rest = rest[(binary.NativeEndian.Uint32(rest)+3)&^3:] {
				if code := int32(binary.NativeEndian.Uint32(rest[16:])); code != 0 {
					return fmt.Errorf("make a chain of nftables: %w", unix.Errno(-code))
				}
				acks--
			}
		}
		return nil
	})
	if (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT)) && !testnet.Emulated() {
		l.Skipf("this kernel has no such chains: %v", err)
	}
	l.must(err)
}
