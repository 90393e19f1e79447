package packet

import "testing"

// A verdict has a name, or a number where the kernel has none, and a slot in every table of
// counters.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verdict        Verdict
		text, slotName string
		slot           int
	}{
		{Aborted, "aborted", "aborted", 0},
		{Redirect, "redirect", "redirect", 4},
		{UnknownVerdict, "5", "unknown", 5},
		{77, "77", "unknown", 5},
	} {
		v := test.verdict
		if got := v.String(); got != test.text {
			t.Errorf("%d: text %q, want %q", uint32(v), got, test.text)
		}
		if got := v.SlotName(); got != test.slotName {
			t.Errorf("%d: slot's name %q, want %q", uint32(v), got, test.slotName)
		}
		if got := v.Slot(); got != test.slot {
			t.Errorf("%d: slot %d, want %d", uint32(v), got, test.slot)
		}
		if parsed, err := ParseVerdict(test.text); err != nil || parsed != v {
			t.Errorf("%q is parsed as %d, %v", test.text, uint32(parsed), err)
		}
	}
	// "unknown" stands for many numbers and can therefore not be asked for.
	if v, err := ParseVerdict("unknown"); err == nil {
		t.Errorf("unknown is parsed as %d", uint32(v))
	}
	if v, err := ParseVerdict("XDP_TX"); err != nil || v != Tx {
		t.Errorf("XDP_TX is parsed as %d, %v", uint32(v), err)
	}
}
