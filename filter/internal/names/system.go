package names

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
		n, err := strconv.ParseUint(part, 0, 8)
		if err != nil {
			return 0, fmt.Errorf("/etc/networks: %q: %w", text, err)
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
	number, _, _ := strings.Cut(text, "/")
	v, err := strconv.ParseUint(number, 10, 16)
	return uint16(v), err
}

func (System) Protocol(name string) (uint32, error) {
	text, err := lookupFile("/etc/protocols", name, func(string) bool { return true })
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 10, 32)
	return uint32(v), err
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
	return "", fmt.Errorf("%q is not in %s", name, path)
}
