package capture

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// A file has the words of each hook, and labels lead back to it; Options.Hooks takes those that
// trace.
func TestHooks(t *testing.T) {
	t.Parallel()
	for hook := XDP; hook < UnknownHook; hook++ {
		d := describeTwo()
		d.Sources[0] = Source{Name: "eth0", Hook: hook, Target: Program{Name: "prog"}}
		src := &d.Sources[0]
		if text := string(NewEncoder(&d, EncoderOptions{}).Header(nil)); !strings.Contains(text, src.Label()+": "+src.Sentence()+"\n") {
			t.Errorf("a file does not know the hook %v: %q", hook, text)
		}
		if err := (&Options{Hooks: []Hook{hook}}).checkHooks(); (err == nil) != hook.Traces() {
			t.Errorf("Options.Hooks with %v: %v", hook, err)
		}
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
