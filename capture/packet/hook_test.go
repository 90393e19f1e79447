package packet

import "testing"

// A label leads back to its hook. A hook can be asked for by its name if it traces a program.
func TestHookKinds(t *testing.T) {
	t.Parallel()
	for hook := XDP; hook < UnknownHook; hook++ {
		s := Source{Name: "eth0", Hook: hook, Target: Program{Name: "prog"}}
		got, want := ParseLabel(s.Label()), hook
		if hook == XDP || hook == TailCall { // their labels are the bare name
			want = UnknownHook
		}
		if got.Hook != want || got.Name != "eth0" || hook.Traces() && got.Target.Name != "prog" || got.Label() != s.Label() {
			t.Errorf("%v: the label %s is read as %v of %s, with the label %s", hook, s.Label(), got.Hook, got.Name, got.Label())
		}
		if h, err := ParseHook(hook.String()); (err == nil) != hook.Traces() || err == nil && h != hook {
			t.Errorf("ParseHook(%v) = %v, %v", hook, h, err)
		}
	}
}
