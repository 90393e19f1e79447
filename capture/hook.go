package capture

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

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

// A hook is where on an interface a session samples packets. Each kind is one file, hook_NAME.go,
// and Options.hooks chooses among them. Each method is called once, in this order, with four
// exceptions: sources may be called at any time, check is called again and again while the hook is
// attached, another goroutine may call check and detach, one at a time, and after an error only
// detach and close are called.
type hook interface {
	// sources are where the hook's packets come from, in the order of a packet's way. Their modes
	// and programs are known once the hook is attached.
	sources() []Source
	// load loads the programs. first is the index of the first of the hook's sources among the
	// session's, index that of the hook.
	load(k *sampler, first, index uint32) error
	// attach begins to sample.
	attach() error
	// check returns why the hook no longer sees the packets that it was made for, or nil. The error
	// is an ErrInterfaceGone, or says what happened to the hook.
	check() error
	// detach ends sampling, also where attach ended halfway with an error.
	detach() error
	// close releases the programs.
	close() error
}

// sourcesOf are the hooks' sources in the order of the session.
func sourcesOf(hooks []hook) (sources []Source) {
	for _, h := range hooks {
		sources = append(sources, h.sources()...)
	}
	return sources
}

// attachHooks begins to sample at all hooks. After an error some are attached.
func attachHooks(hooks []hook) error {
	for _, h := range hooks {
		if err := h.attach(); err != nil {
			return err
		}
	}
	return nil
}

// detachHooks ends sampling, in the opposite order.
func detachHooks(hooks []hook) error {
	var errs []error
	for _, h := range slices.Backward(hooks) {
		errs = append(errs, h.detach())
	}
	return errors.Join(errs...)
}

func closeHooks(hooks []hook) error {
	var errs []error
	for _, h := range hooks {
		errs = append(errs, h.close())
	}
	return errors.Join(errs...)
}

// A program is a loaded program of bpf/sampler.c.
type program struct {
	*ebpf.Program
	// nil = not attached. It is held here, because the garbage collector closes a link that is not
	// held.
	link io.Closer
}

// info asks the kernel what the program is called there.
func (p *program) info() (Program, error) {
	identity, err := xdp.Identify(p.Program)
	if err != nil {
		return Program{}, fmt.Errorf("ask for the sampling program's id: %w", err)
	}
	return Program(identity), nil
}

func (p *program) detach() error {
	if p.link == nil {
		return nil
	}
	err := p.link.Close()
	p.link = nil
	return err
}

func (p *program) close() error { return p.Program.Close() } // Close accepts a nil program
