package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// However many notices there are, few are kept and told, and all are counted.
func TestNotices(t *testing.T) {
	testnet.SkipEmulated(t)
	for _, test := range []struct {
		name                string
		text                func(i int) string
		kept, told, omitted int
	}{
		{"few", func(i int) string { return "one" }, alikeNotices, alikeNotices + 4, 100_000 - alikeNotices},
		{"numbered", func(i int) string { return fmt.Sprintf("out-%d.pcapng: %d packets", i, i*i) }, alikeNotices, alikeNotices + 4, 100_000 - alikeNotices},
		{"different", func(i int) string { return strings.Repeat("x", i) }, allNotices, 2 * allNotices, 100_000 - allNotices},
	} {
		n, told := newNotices(), 0
		for i := range 100_000 {
			if test.name == "different" {
				i %= 1000
			}
			if _, ok := n.fold(test.text(i)); ok {
				told++
			}
		}
		if len(n.texts) != test.kept || n.left() != uint64(test.omitted) || told != test.told || len(n.alike) > allNotices {
			t.Errorf("%s: %d kept, %d told, %d omitted, %d kinds", test.name, len(n.texts), told, n.left(), len(n.alike))
		}
	}
	// Of those that nobody took in time the number is known.
	n := newNotices()
	for range 20 {
		n.add(errors.New("at once"))
	}
	if got := n.left() + uint64(len(n.come)); got != 20 || n.left() == 0 {
		t.Errorf("%d of 20 notices are known of", got)
	}
}
