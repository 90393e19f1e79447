package capture

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
)

const (
	maxAlike = 10  // of one kind that are told in full
	maxTold  = 100 // that are told in full, and the kinds that are counted
)

// notices are what a capture says while it runs. However many there are, they take little memory
// and few lines: of those that differ in their numbers alone the first are told, and the others are
// counted. add may be called by any goroutine, everything else by one at a time.
type notices struct {
	come   chan error    // from add, to be given to fold
	missed atomic.Uint64 // that came faster than they could be told

	texts   []string // those that were told in full
	alike   map[string]uint64
	omitted uint64
}

// An answer is a notice that somebody has asked for, by a signal. It is always printed.
type answer struct{ error }

func (a answer) Unwrap() error { return a.error }

// newNotices returns an empty list.
func newNotices() *notices {
	return &notices{come: make(chan error, 16), alike: make(map[string]uint64)}
}

// add never waits.
func (n *notices) add(err error) {
	select {
	case n.come <- err:
	default:
		n.missed.Add(1)
	}
}

var noticeNumbers = regexp.MustCompile(`[0-9]+`)

// fold counts a notice and returns the text to print. The first of a kind are printed unchanged.
// After that it returns only the 100th, 1000th, ... of a kind, with the count.
func (n *notices) fold(text string) (told string, ok bool) {
	kind := noticeNumbers.ReplaceAllString(text, "0")
	if len(n.alike) >= maxTold && n.alike[kind] == 0 {
		n.omitted++
		return "", false
	}
	n.alike[kind]++
	count := n.alike[kind]
	if count <= maxAlike && len(n.texts) < maxTold {
		n.texts = append(n.texts, text)
		return text, true
	}
	n.omitted++
	if number := fmt.Sprint(count); count >= 100 && strings.Trim(number[1:], "0") == "" && number[0] == '1' {
		return fmt.Sprintf("%s notices like this one: %s", number, text), true
	}
	return "", false
}

// keep keeps a text that was printed, if there are not too many.
func (n *notices) keep(text string) {
	if len(n.texts) < maxTold {
		n.texts = append(n.texts, text)
	}
}

// left is how many notices are not among the texts.
func (n *notices) left() uint64 { return n.omitted + n.missed.Load() }
