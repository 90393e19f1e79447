package packet

import "fmt"

// A Hook is where on an interface packets are sampled.
type Hook int

const (
	XDP            Hook = iota // at the XDP hook, by the session's own program, if no other runs there
	Entry                      // packets as they enter a running XDP program, by fentry
	Exit                       // packets as they leave it, with its verdict, by fexit
	TailCall                   // packets that a program passes to its hook map, with the verdict it is about to return
	Ingress                    // packets that the stack receives, after XDP, at the first place of tc
	Egress                     // packets that the stack sends, before they reach a queue of the interface
	StackDrop                  // packets that the network stack throws away, with reason and location
	FailedRedirect             // packets that the kernel fails to redirect for an XDP program, with the error
	UnknownHook                // of an interface in a capture file that does not name it
)

// A hookKind has the properties that all sources of a Hook share. Other code reads them instead of
// comparing hooks.
type hookKind struct {
	name       string // in files, lines and messages
	direction  Direction
	hasVerdict bool // its packets have a verdict
	hasQueue   bool // the interface's queue of a packet is known
	traces     bool // it traces a running program, Source.Target
	// inFragments: packets may be in several buffers, and the program can read only the first.
	inFragments bool
	anyWay      bool // it is not known whether a packet was received, or was to be sent
	loses       bool // its packets get lost there
	// suffix ends the label of a source, so that a file shows the interface's hook; "" = none.
	suffix string
	// sentence describes how the source's packets are sampled, for a comment in a file.
	sentence func(*Source) string
}

// hookKinds are the kinds by their Hook.
var hookKinds = [...]hookKind{
	XDP: {
		name:     "xdp",
		hasQueue: true,
		sentence: func(s *Source) string { return fmt.Sprintf("XDP program %s, %s mode", s.Sampler, s.Mode) },
	},
	Entry: {name: "entry", hasQueue: true, traces: true, inFragments: true, suffix: "@fentry", sentence: tracing},
	Exit:  {name: "exit", hasVerdict: true, hasQueue: true, traces: true, inFragments: true, suffix: "@fexit", sentence: tracing},
	TailCall: {
		name:       "tail call",
		hasVerdict: true,
		hasQueue:   true,
		sentence:   func(s *Source) string { return fmt.Sprintf("XDP programs like %s, called through this map", s.Sampler) },
	},
	Ingress: {name: "ingress", hasQueue: true, suffix: "@ingress", sentence: attached},
	Egress:  {name: "egress", direction: Out, suffix: "@egress", sentence: attached},
	StackDrop: {
		name:        "drop",
		suffix:      "@drop",
		anyWay:      true,
		inFragments: true,
		loses:       true,
		sentence: func(s *Source) string {
			return fmt.Sprintf("program %s where the network stack throws away packets of the interface", s.Sampler)
		},
	},
	FailedRedirect: {
		name:        "redirect",
		suffix:      "@redirect",
		hasVerdict:  true,
		hasQueue:    true,
		inFragments: true,
		loses:       true,
		sentence: func(s *Source) string {
			return fmt.Sprintf("program %s where the kernel fails to redirect packets of the interface", s.Sampler)
		},
	},
	// An interface in a file that names no hook. Its packets may still have a verdict and a queue.
	UnknownHook: {
		name:     "unknown",
		hasQueue: true,
		sentence: func(s *Source) string { return "an interface of " + s.File },
	},
}

func (h Hook) kind() *hookKind {
	if h < 0 || int(h) >= len(hookKinds) {
		h = UnknownHook
	}
	return &hookKinds[h]
}

func (h Hook) String() string {
	if h < 0 || int(h) >= len(hookKinds) {
		return fmt.Sprintf("hook %d", int(h))
	}
	return hookKinds[h].name
}

// Traces reports whether the hook traces another program, the source's Target, as Entry and Exit
// do.
func (h Hook) Traces() bool { return h.kind().traces }

// Loses reports whether the packets of the hook get lost there, as those of StackDrop and
// FailedRedirect do.
func (h Hook) Loses() bool { return h.kind().loses }

// ParseHook reads the name of a hook that a user can choose: "entry" or "exit".
func ParseHook(s string) (Hook, error) {
	for h, kind := range hookKinds {
		if s == kind.name && kind.traces {
			return Hook(h), nil
		}
	}
	return 0, fmt.Errorf("hook %q: must be entry or exit", s)
}

func tracing(s *Source) string {
	if s.TargetAt != AtXDP {
		return fmt.Sprintf("program %s at the %s of program %s, which runs at %v", s.Sampler, s.Hook, s.Target, s.TargetAt)
	}
	return fmt.Sprintf("program %s at the %s of XDP program %s", s.Sampler, s.Hook, s.Target)
}

func attached(s *Source) string {
	return fmt.Sprintf("program %s at the %s of the interface, by %s", s.Sampler, s.Hook, s.Attached)
}

// Sentence describes how the source's packets are sampled, for a comment in a file.
func (s *Source) Sentence() string { return s.Hook.kind().sentence(s) }
