package culprit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A layout has the offsets of the fields of a rule, from linux/netfilter_ipv4/ip_tables.h and
// linux/netfilter_ipv6/ip6_tables.h.
type layout struct {
	command  string
	family   int
	level    int
	tables   string // the file below /proc/net that lists the tables
	size     int    // of an address
	protocol int
	flags    int // inverted tests
	target   int // offset of target_offset, which next_offset follows
	counters int
}

var (
	iptables  = layout{"iptables", unix.AF_INET, unix.SOL_IP, "ip_tables_names", 4, 80, 83, 88, 96}
	ip6tables = layout{"ip6tables", unix.AF_INET6, unix.SOL_IPV6, "ip6_tables_names", 16, 128, 132, 140, 152}
)

// Options of getsockopt, and struct ipt_getinfo and ipt_get_entries.
const (
	getInfo    = 64
	getEntries = 65

	tableNameSize = 32
	infoSize      = 84
	infoHooks     = tableNameSize      // a bit for each hook that has a chain
	infoEntries   = tableNameSize + 4  // the offset of each hook's chain
	infoPolicies  = tableNameSize + 24 // the offset of each hook's last rule, its policy
	infoBytes     = 80                 // the size of all rules
	entriesHeader = 40
	entriesBytes  = tableNameSize
)

// xtables reads the rules of iptables or ip6tables, but not those of iptables-nft, which nft reads.
type xtables struct {
	layout
	socket int
	names  []string // of the tables that existed at Open
}

// openXtables returns nil if the network namespace has no table: a request for a table creates it.
func openXtables(l layout) (ruleSource, error) {
	names, _ := os.ReadFile("/proc/thread-self/net/" + l.tables) // only root may read it
	x := &xtables{layout: l, names: strings.Fields(string(names))}
	if len(x.names) == 0 {
		return nil, nil
	}
	var err error
	if x.socket, err = unix.Socket(l.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open a socket to %s: %w", l.command, err)
	}
	return x, nil
}

func (x *xtables) close() { unix.Close(x.socket) }

func (x *xtables) rules() (all []rule, err error) {
	for _, table := range x.names {
		rules, err := x.read(x.socket, table)
		if err != nil {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

func (l *layout) read(fd int, table string) ([]rule, error) {
	info := make([]byte, infoSize)
	copy(info, table)
	err := getOption(fd, l.level, getInfo, info)
	var entries []byte
	if err == nil {
		size := binary.NativeEndian.Uint32(info[infoBytes:])
		entries = make([]byte, entriesHeader+size)
		copy(entries, table)
		binary.NativeEndian.PutUint32(entries[entriesBytes:], size)
		err = getOption(fd, l.level, getEntries, entries)
	}
	if errors.Is(err, unix.EAGAIN) { // it has changed in between
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of %s, which takes CAP_NET_ADMIN: %w", l.command, err)
	}
	return l.parse(table, info, entries[entriesHeader:]), nil
}

func getOption(fd, level, option int, value []byte) error {
	size := uint32(len(value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&value[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// parse returns the rules of a table that can drop packets. A table is a sequence of chains, and a
// chain is a sequence of rules. The chains of the kernel's hooks come first; their offsets are in
// info. Any other chain begins with a rule whose target ERROR has the chain's name.
func (l *layout) parse(table string, info, entries []byte) (all []rule) {
	native := binary.NativeEndian
	begins, policies := make(map[uint32]string), make(map[uint32]bool)
	for i, hook := range hookNames {
		if native.Uint32(info[infoHooks:])>>i&1 != 0 {
			begins[native.Uint32(info[infoEntries+4*i:])] = hook
			policies[native.Uint32(info[infoPolicies+4*i:])] = true
		}
	}
	chain, hook, number := "", "", 0
	for at := uint32(0); int(at)+l.counters+16 <= len(entries); {
		entry := entries[at:]
		target, next := native.Uint16(entry[l.target:]), native.Uint16(entry[l.target+2:])
		if int(next) > len(entry) || int(target)+targetHeader > int(next) {
			break
		}
		entry = entry[:next]
		if name, ok := begins[at]; ok {
			chain, hook, number = strings.ToUpper(name), name, 0
		}
		number++
		isPolicy := policies[at]
		at += uint32(next)
		t := partOf(entry[target:])
		if t.name == "ERROR" {
			chain, hook, number = unix.ByteSliceToString(t.data), "", 0
			continue
		}
		verdict, drops := t.name, isDroppingTarget(t.name)
		if t.name == "" && len(t.data) >= 4 && int32(native.Uint32(t.data)) == -verdictDrop-1 {
			verdict, drops = "DROP", true
		}
		if !drops {
			continue
		}
		r := rule{
			chain: fmt.Sprintf("%s %s %s", l.command, table, chain), position: fmt.Sprint("rule ", number),
			hook: hook, packets: native.Uint64(entry[l.counters:]), hasCounter: true,
		}
		r.key = r.chain + string(l.tests(entry, target))
		r.text = func() string { return l.text(entry, target, verdict) }
		if isPolicy {
			r.position, r.key, r.text = "policy", r.chain+" policy", func() string { return verdict }
		}
		all = append(all, r)
	}
	return all
}

// tests returns the bytes that identify a rule: all but its position and its counters.
func (l *layout) tests(entry []byte, target uint16) []byte {
	return bytes.Join([][]byte{entry[:l.flags+1], entry[l.counters+16 : target]}, nil)
}

// isDroppingTarget reports whether a target drops packets.
func isDroppingTarget(name string) bool { return name == "DROP" || name == "REJECT" }

// A part is a test or a target of a rule: struct xt_entry_match.
type part struct {
	name string
	data []byte
}

const (
	partNameAt   = 2
	targetHeader = 32
)

func partOf(b []byte) part {
	return part{unix.ByteSliceToString(b[partNameAt : targetHeader-1]), b[targetHeader:]}
}

// text formats a rule as `iptables -S` does, but with only the names of most tests.
func (l *layout) text(entry []byte, target uint16, verdict string) string {
	var words []string
	inverted := entry[l.flags]
	add := func(bit byte, option, value string) {
		if inverted&bit != 0 {
			words = append(words, "!")
		}
		words = append(words, option, value)
	}
	address := func(bit byte, option string, n int) {
		value, mask := entry[n*l.size:(n+1)*l.size], entry[(n+2)*l.size:(n+3)*l.size]
		if ones := onesIn(mask); ones > 0 {
			add(bit, option, prefixText(addressValue(l.size)(value), ones, 8*l.size))
		}
	}
	address(0x08, "-s", 0)
	address(0x10, "-d", 1)
	for i, option := range []string{"-i", "-o"} {
		at := 4*l.size + i*unix.IFNAMSIZ
		if name := unix.ByteSliceToString(entry[at : at+unix.IFNAMSIZ]); name != "" {
			add(1<<i, option, name)
		}
	}
	if protocol := entry[l.protocol]; protocol != 0 {
		add(0x40, "-p", protocolValue([]byte{protocol}))
	}
	for at := l.counters + 16; at+targetHeader <= int(target); {
		size := int(binary.NativeEndian.Uint16(entry[at:]))
		if size < targetHeader || at+size > int(target) {
			break
		}
		m := partOf(entry[at : at+size])
		words = append(words, textOfMatch(m.name, m.data))
		at += size
	}
	return strings.Join(append(words, "-j", verdict), " ")
}

// textOfMatch formats a test of iptables, which rules of nf_tables may also have: ports and
// comments with their values, and other tests as their names.
func textOfMatch(name string, data []byte) string {
	native := binary.NativeEndian
	switch {
	case name == "comment":
		return fmt.Sprintf("%q", unix.ByteSliceToString(data))
	case name == "udp" && len(data) > 8:
		return textOfPorts(name, data, data[8]) // struct xt_udp
	case name == "tcp" && len(data) > 11:
		return textOfPorts(name, data, data[11]) // struct xt_tcp
	case name == "multiport" && len(data) >= 2+2*15: // struct xt_multiport_v1
		var ports []string
		for i := range min(int(data[1]), 15) {
			ports = append(ports, fmt.Sprint(native.Uint16(data[2+2*i:])))
		}
		option := []string{"--sports", "--dports", "--ports"}[min(data[0], 2)]
		return option + " " + strings.Join(ports, ",")
	}
	return "-m " + name
}

// textOfPorts formats the ranges of ports of a udp or tcp test: "--dport 53:54". inverted has a bit
// for each range.
func textOfPorts(name string, ports []byte, inverted byte) string {
	var words []string
	for i, option := range []string{"--sport", "--dport"} {
		low, high := binary.NativeEndian.Uint16(ports[4*i:]), binary.NativeEndian.Uint16(ports[4*i+2:])
		if low == 0 && high == 0xffff {
			continue
		}
		if inverted>>i&1 != 0 {
			words = append(words, "!")
		}
		port := fmt.Sprint(low)
		if high != low {
			port += fmt.Sprint(":", high)
		}
		words = append(words, option, port)
	}
	if words == nil {
		return "-m " + name
	}
	return strings.Join(words, " ")
}
