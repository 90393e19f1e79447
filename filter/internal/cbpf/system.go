package cbpf

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// System looks names up in the system's files and the DNS: see filter.SystemResolver.
type System struct{}

func (System) Host(name string) ([]netip.Addr, error) {
	r := net.Resolver{PreferGo: true}
	return r.LookupNetIP(context.Background(), "ip", name)
}

func (System) Network(name string) (uint32, error) {
	text, err := lookupFile("/etc/networks", name, func(string) bool { return true })
	if err != nil {
		return 0, err
	}
	var v uint32
	for part := range strings.SplitSeq(text, ".") {
		n, err := number("/etc/networks", part, 8)
		if err != nil {
			return 0, err
		}
		v = v<<8 | uint32(n)
	}
	return v, nil
}

func (System) Port(name, transport string) (uint16, error) {
	text, err := lookupFile("/etc/services", name, func(value string) bool { return strings.HasSuffix(value, "/"+transport) })
	if err != nil {
		return 0, err
	}
	text, _, _ = strings.Cut(text, "/")
	v, err := number("/etc/services", text, 16)
	return uint16(v), err
}

func (System) Protocol(name string) (uint32, error) {
	text, err := lookupFile("/etc/protocols", name, func(string) bool { return true })
	if err != nil {
		return 0, err
	}
	v, err := number("/etc/protocols", text, 32)
	return uint32(v), err
}

// number parses a number from a file.
func number(path, text string, bits int) (uint64, error) {
	v, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%s: %.40q is not a number of %d bits", path, text, bits)
	}
	return v, nil
}

// lookupFile finds a name or an alias in a file of lines "name value alias...", and returns the
// first value that fits.
func lookupFile(path, name string, fits func(value string) bool) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) < 2 || !fits(words[1]) {
			continue
		}
		if words[0] == name || slices.Contains(words[2:], name) {
			return words[1], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%.40q is not in %s", name, path)
}
