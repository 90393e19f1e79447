package xdp

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

// A list that has changed while the kernel wrote it is asked for again, and other errors are not.
func TestDump(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, test := range []struct {
		name        string
		interrupted int // tries
		err         error
		tries       int
		want        error
	}{
		{"quiet", 0, nil, 1, nil},
		{"interrupted twice", 2, nil, 3, nil},
		{"interrupted, then refused", 1, other, 2, other},
		{"always interrupted", 1000, nil, dumpTries, netlink.ErrDumpInterrupted},
	} {
		tries := 0
		list, err := Dump(func() ([]int, error) {
			if tries++; tries <= test.interrupted {
				return []int{tries}, netlink.ErrDumpInterrupted
			}
			return []int{tries}, test.err
		})
		if tries != test.tries || !errors.Is(err, test.want) || len(list) != 1 || list[0] != tries {
			t.Errorf("%s: %d after %d tries, error %v; want %d tries, error %v", test.name, list, tries, err, test.tries, test.want)
		}
	}
}
