package capture

import "fmt"

// A Hook is where on an interface packets are sampled.
type Hook int

const (
	XDP         Hook = iota // at the XDP hook, by a program of the session's own, where no other runs
	Entry                   // what goes into a program that runs there, by fentry
	Exit                    // what comes out of it, with its verdict, by fexit
	TailCall                // what a program hands to its hook map, with the verdict it is about to return
	Egress                  // what the stack sends, before it comes to a queue of the interface
	UnknownHook             // of an interface in a capture file that does not name it
)

// A hookKind is what is known of all sources of a Hook. It is declared in the hook's own file, and
// what tells one hook from another elsewhere asks it.
type hookKind struct {
	name       string // in files, lines and messages
	direction  Direction
	hasVerdict bool // its packets have a verdict
	hasQueue   bool // it is known to which queue of the interface a packet belongs
	traces     bool // a program that runs already, which is Source.Target
	// suffix ends the label of a source, so that files tell the hook of an interface; "" = nothing.
	suffix string
	// sentence says for a file's comment what samples the source's packets.
	sentence func(*Source) string
}

// hookKinds are the kinds by their Hook.
var hookKinds = []*hookKind{
	XDP:         &atXDP,
	Entry:       &atEntry,
	Exit:        &atExit,
	TailCall:    &atTailCall,
	Egress:      &atEgress,
	UnknownHook: &unknownHook,
}

// unknownHook is that of packets in a file, which may have a verdict and a queue nevertheless.
var unknownHook = hookKind{
	name:     "unknown",
	hasQueue: true,
	sentence: func(s *Source) string { return "an interface of " + s.File },
}

func (h Hook) kind() *hookKind {
	if h < 0 || int(h) >= len(hookKinds) {
		return &unknownHook
	}
	return hookKinds[h]
}

func (h Hook) String() string {
	if h < 0 || int(h) >= len(hookKinds) {
		return fmt.Sprintf("hook %d", int(h))
	}
	return hookKinds[h].name
}

// Traces tells whether packets are those of a program that somebody else runs, as at Entry and
// Exit. It is the source's Target.
func (h Hook) Traces() bool { return h.kind().traces }

// ParseHook reads the name of a hook that can be asked for: "entry" or "exit".
func ParseHook(s string) (Hook, error) {
	for h, kind := range hookKinds {
		if s == kind.name && kind.traces {
			return Hook(h), nil
		}
	}
	return 0, fmt.Errorf("hook %q: must be entry or exit", s)
}
