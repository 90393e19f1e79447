package capture

import (
	"strings"
	"testing"
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
