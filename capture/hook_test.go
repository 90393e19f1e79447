package capture

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// addHookKind adds a kind of hook until the test has ended.
func addHookKind(t *testing.T) (Hook, *hookKind) {
	last := hookKinds
	t.Cleanup(func() { hookKinds = last })
	kind := &hookKind{
		name: "uplink", direction: Out, hasVerdict: true, suffix: "@uplink",
		sentence: func(s *Source) string { return "the uplink of " + s.Name },
	}
	hookKinds = append(last[:len(last):len(last)], kind)
	return Hook(len(last)), kind
}

// A kind of hook that is added to the table is known to labels, files and lines, and what is read
// of a file has it.
//
// It is not parallel, because it changes the list of all kinds.
func TestHookKinds(t *testing.T) {
	added, kind := addHookKind(t)
	d := describeTwo()
	d.Sources[0] = Source{Name: "eth0", Hook: added}
	if text := string(NewEncoder(&d, EncoderOptions{}).Header(nil)); !strings.Contains(text, "eth0@uplink: the uplink of eth0\n") {
		t.Errorf("a file does not know the hook: %q", text)
	}

	s := ParseLabel("eth0@uplink")
	if s.Name != "eth0" || s.Hook != added || s.Label() != "eth0@uplink" {
		t.Errorf("the interface in a file is %s at %v, with the label %s", s.Name, s.Hook, s.Label())
	}

	if h, err := ParseHook("uplink"); err == nil {
		t.Errorf("%v can be asked for, where it traces no program", h)
	}
	for _, h := range []Hook{XDP, TailCall, Egress, StackDrop, UnknownHook, added} {
		if err := (&Options{Hooks: []Hook{h}}).checkHooks(); err == nil {
			t.Errorf("Options.Hooks may have %v", h)
		}
	}
	kind.traces = true
	if h, err := ParseHook("uplink"); err != nil || h != added || !h.Traces() {
		t.Errorf("ParseHook = %v, %v", h, err)
	}
}

// fexit is detached before fentry. If it were attached alone, it would record a packet by what
// fentry had decided about an earlier one.
func TestTracersEnd(t *testing.T) {
	t.Parallel()
	h := &traceHook{fentry: new(ebpf.Program), fexit: new(ebpf.Program)}
	if all := h.tracers(); len(all) != 2 || all[0] != h.fexit || all[1] != h.fentry {
		t.Errorf("they are attached and detached in another order: %v", all)
	}
}
