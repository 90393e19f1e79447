package file

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Notices of blocks that were not copied have a fixed order.
func TestCopyNotices(t *testing.T) {
	t.Parallel()
	e := &Copier{omitted: make(map[uint32]uint64)}
	var want []string
	for typ := range uint32(9) {
		e.omitted[typ] = 1
		want = append(want, fmt.Sprintf("omitted 1 blocks of type %d: xdpcap does not know how to adapt them to a merged file", typ))
	}
	var got []string
	for _, notice := range e.Omitted() {
		got = append(got, notice.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
