package capture

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
)

const (
	maxOfKind = 10  // printed notices of one kind
	maxTexts  = 100 // printed notices, and kinds
)

// notices are the messages of a capture while it runs. Two notices are of one kind if they differ
// only in numbers. The first of each kind are printed, and the others counted, so that any number
// of notices needs little memory and few lines. add may be called by any goroutine, all other
// methods by one at a time.
type notices struct {
	queue     chan error    // from add to fold
	discarded atomic.Uint64 // because the queue was full

	texts   []string          // the printed notices
	kinds   map[string]uint64 // the number of notices of each kind
	omitted uint64            // notices that were not printed
}

// An answer is a notice that the user has requested by a signal. It is always printed.
type answer struct{ error }

func (a answer) Unwrap() error { return a.error }

func newNotices() *notices {
	return &notices{queue: make(chan error, 16), kinds: make(map[string]uint64)}
}

// add queues a notice. It never waits.
func (n *notices) add(err error) {
	select {
	case n.queue <- err:
	default:
		n.discarded.Add(1)
	}
}

var noticeNumbers = regexp.MustCompile(`[0-9]+`)

// fold counts a notice and returns the text to print; false = print none. The first notices of a
// kind are printed unchanged. After that it returns only the 100th, 1000th, ... of a kind, with the
// count.
func (n *notices) fold(text string) (printed string, ok bool) {
	kind := noticeNumbers.ReplaceAllString(text, "0")
	if len(n.kinds) >= maxTexts && n.kinds[kind] == 0 {
		n.omitted++
		return "", false
	}
	n.kinds[kind]++
	count := n.kinds[kind]
	if count <= maxOfKind && len(n.texts) < maxTexts {
		n.texts = append(n.texts, text)
		return text, true
	}
	n.omitted++
	if number := fmt.Sprint(count); count >= 100 && strings.Trim(number[1:], "0") == "" && number[0] == '1' {
		return fmt.Sprintf("%s notices like this one: %s", number, text), true
	}
	return "", false
}

// keep adds an answer, which was printed, to the texts, unless there are maxTexts.
func (n *notices) keep(text string) {
	if len(n.texts) < maxTexts {
		n.texts = append(n.texts, text)
	}
}

// left returns how many notices were not printed.
func (n *notices) left() uint64 { return n.omitted + n.discarded.Load() }
