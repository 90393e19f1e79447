package packet

import "testing"

// The numbers of verdicts at tc have the kernel's names, also those that tcx and iproute2 use.
func TestTCVerdict(t *testing.T) {
	t.Parallel()
	unspec := ^Verdict(0)
	for _, test := range []struct {
		verdict  Verdict
		name     string
		others   []string
		discards bool
	}{
		{unspec, "unspec", []string{"TC_ACT_UNSPEC", "tcx_next", "continue", "-1"}, false},
		{0, "ok", []string{"TC_ACT_OK", "TCX_PASS", "pass", "0"}, false},
		{1, "reclassify", nil, false},
		{2, "shot", []string{"TC_ACT_SHOT", "TCX_DROP", "drop", "2"}, true},
		{4, "stolen", []string{"TC_ACT_STOLEN"}, false},
		{7, "redirect", []string{"TCX_REDIRECT"}, false},
		{8, "trap", []string{"TC_ACT_TRAP"}, false},
		{9, "9", nil, false},
		{unspec - 1, "-2", nil, false},
	} {
		if got := TCVerdict.NameOf(test.verdict); got != test.name {
			t.Errorf("%d is called %s, want %s", int32(test.verdict), got, test.name)
		}
		if got := TCVerdict.Discards(test.verdict); got != test.discards {
			t.Errorf("%s discards: %t", test.name, got)
		}
		for _, text := range append(test.others, test.name) {
			if v, err := ParseTCVerdict(text); err != nil || v != test.verdict {
				t.Errorf("%s is parsed as %d, %v; want %d", text, int32(v), err, int32(test.verdict))
			}
		}
	}
	for _, text := range []string{"aborted", "", "tc_act_", "99999999999"} {
		if v, err := ParseTCVerdict(text); err == nil {
			t.Errorf("%q is parsed as %d", text, int32(v))
		}
	}
	if got := PlainNumber.NameOf(unspec - 21); got != "-22" {
		t.Errorf("a number is called %s", got)
	}
}
