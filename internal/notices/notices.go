// Package notices keeps what a run says short, however much there is to say.
package notices

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

// Notices are what a capture says while it runs. However many there are, they take little memory
// and few lines: of those that differ in their numbers alone the first are told, and the others are
// counted. Add may be called by any goroutine, everything else by one at a time.
type Notices struct {
	Come   chan error    // from Add, to be given to Fold
	missed atomic.Uint64 // that came faster than they could be told

	Texts   []string // those that were told in full
	alike   map[string]uint64
	omitted uint64
}

// New returns an empty list.
func New() *Notices {
	return &Notices{Come: make(chan error, 16), alike: make(map[string]uint64)}
}

// Add never waits.
func (n *Notices) Add(err error) {
	select {
	case n.Come <- err:
	default:
		n.missed.Add(1)
	}
}

var digits = regexp.MustCompile(`[0-9]+`)

// Fold counts a notice and returns the text to tell instead of it, which is the notice itself where
// there were few like it. Of the others, those are told with their number that are the 100th, the
// 1000th and so on.
func (n *Notices) Fold(text string) (told string, ok bool) {
	kind := digits.ReplaceAllString(text, "0")
	if len(n.alike) >= maxTold && n.alike[kind] == 0 {
		n.omitted++
		return "", false
	}
	n.alike[kind]++
	count := n.alike[kind]
	if count <= maxAlike && len(n.Texts) < maxTold {
		n.Texts = append(n.Texts, text)
		return text, true
	}
	n.omitted++
	if number := fmt.Sprint(count); count >= 100 && strings.Trim(number[1:], "0") == "" && number[0] == '1' {
		return fmt.Sprintf("%s notices like this one: %s", number, text), true
	}
	return "", false
}

// Left is how many notices are not among the texts.
func (n *Notices) Left() uint64 { return n.omitted + n.missed.Load() }
