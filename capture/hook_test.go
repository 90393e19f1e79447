package capture

import (
	"bytes"
	"strings"
	"testing"
)

// A kind of hook that is added to the table is known to labels, files and lines, and what is read
// of a file has it.
func TestHookKinds(t *testing.T) {
	last := hookKinds
	t.Cleanup(func() { hookKinds = last })
	added := Hook(len(hookKinds))
	kind := &hookKind{
		name: "uplink", direction: Out, hasVerdict: true, suffix: "@uplink",
		sentence: func(s *Source) string { return "the uplink of " + s.Name },
	}
	hookKinds = append(last[:len(last):len(last)], kind)

	f := factsOf(false)
	f.CardTime = 0
	written := func(format Format) string {
		d := describeTwo()
		d.OutletName = func(Outlet) string { return "" }
		d.Sources[0] = Source{Name: "eth0", Hook: added}
		var out bytes.Buffer
		w := NewWriter(&out, WriterOptions{Format: format})
		w.Begin(d)
		w.Write([]Packet{{Facts: &f, Data: packetOf(60, 1)}})
		w.End(make(Accounts, 2))
		return out.String()
	}
	for format, parts := range map[Format][]string{
		PCAPNG: {"eth0@uplink: the uplink of eth0\n"},
		JSON:   {`"interface":"eth0"`, `"hook":"uplink"`, `"direction":"out"`, `"verdict":`},
	} {
		for _, part := range parts {
			if text := written(format); !strings.Contains(text, part) {
				t.Errorf("%v has no %q: %q", format, part, text)
			}
		}
	}
	if text := written(JSON); strings.Contains(text, `"queue":`) {
		t.Errorf("a line has a queue that the hook does not know: %s", text)
	}

	s := Source{Name: "eth0@uplink"}
	if s.parseLabel(); s.Name != "eth0" || s.Hook != added || s.Label() != "eth0@uplink" {
		t.Errorf("the interface in a file is %s at %v, with the label %s", s.Name, s.Hook, s.Label())
	}

	if h, err := ParseHook("uplink"); err == nil {
		t.Errorf("%v can be asked for, where it traces no program", h)
	}
	for _, h := range []Hook{XDP, TailCall, Egress, UnknownHook, added} {
		if err := (&Options{Hooks: []Hook{h}}).checkHooks(); err == nil {
			t.Errorf("Options.Hooks may have %v", h)
		}
	}
	kind.traces = true
	if h, err := ParseHook("uplink"); err != nil || h != added || !h.Traces() {
		t.Errorf("ParseHook = %v, %v", h, err)
	}
}
