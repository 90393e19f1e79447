package testnet

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/link"
)

// LinksOf opens the link of each of these programs, like a child process that has inherited them.
// It retries while another process's new link cannot be opened yet.
func LinksOf(t *testing.T, programs ...uint32) (found []link.Link) {
	t.Helper()
	var failed error
	defer func() {
		if t.Failed() {
			t.Logf("links of programs %v: %v", programs, failed)
		}
	}()
	WaitFor(t, "the links of the programs", func() bool {
		all := new(link.Iterator)
		defer all.Close()
		for all.Next() {
			info, err := all.Link.Info()
			if err == nil && slices.Contains(programs, uint32(info.Program)) {
				found = append(found, all.Take())
			}
		}
		if failed = all.Err(); len(found) == len(programs) {
			return true
		}
		for _, l := range found {
			l.Close()
		}
		found = nil
		return false
	})
	return found
}
