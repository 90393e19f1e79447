package filter

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
	"github.com/xdpcap/xdpcap/internal/headers"
)

func TestX(t *testing.T) {
	_ = fmt.Sprint(maps.Keys[map[int]int], netip.Addr{}, slices.Max[[]int], strings.Cut, filtertest.Corners, headers.Ethernet)
	p, err := Compile("tcp and src host in @x and not dst port in @y or geneve and ip6 host in @x", Options{Sets: map[string]Set{"x": any1{}, "y": any1{}}})
	fmt.Println(p.Listing(), err)
	for _, e := range []string{"host in @z", "portrange in @x", "host @x", "in @x", "tcp host in @x", "ip host in @x or in @y"} {
		p, err := Compile(e, Options{Sets: map[string]Set{"x": any1{}, "y": any1{}}})
		fmt.Println(p, err)
	}
}
type any1 struct{}
func (any1) Use(SetKind) (bool, bool, error) { return true, true, nil }
func (any1) Contains(k []byte) bool { return true }
