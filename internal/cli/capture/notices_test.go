package capture

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// However many notices there are, few are kept and told, and all are counted.
func TestNotices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                string
		text                func(i int) string
		kept, told, omitted int
	}{
		{"alike", func(i int) string { return fmt.Sprintf("out-%d.pcapng: %d packets", i, i*i) }, maxOfKind, maxOfKind + 3, 20_000 - maxOfKind},
		{"different", func(i int) string { return strings.Repeat("x", i) }, maxTexts, 2 * maxTexts, 20_000 - maxTexts},
	} {
		n, told := newNotices(), 0
		for i := range 20_000 {
			if test.name == "different" {
				i %= 200
			}
			if _, ok := n.fold(test.text(i)); ok {
				told++
			}
		}
		if len(n.texts) != test.kept || n.left() != uint64(test.omitted) || told != test.told || len(n.kinds) > maxTexts {
			t.Errorf("%s: %d kept, %d told, %d omitted, %d kinds", test.name, len(n.texts), told, n.left(), len(n.kinds))
		}
	}
	// Of those that nobody took in time the number is known.
	n := newNotices()
	for range 20 {
		n.add(errors.New("at once"))
	}
	if got := n.left() + uint64(len(n.queue)); got != 20 || n.left() == 0 {
		t.Errorf("%d of 20 notices are known of", got)
	}
}
