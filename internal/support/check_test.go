package support

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// expect compares the result of one case of a table.
func expect(t *testing.T, name string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func TestAnswerString(t *testing.T) {
	t.Parallel()
	for answer, want := range map[Answer]string{Unknown: "unknown", No: "no", Yes: "yes", Yes + 1: "3", -1: "-1"} {
		if got := answer.String(); got != want {
			t.Errorf("answer %d is called %q, want %q", int(answer), got, want)
		}
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	late := Check{Key: "lru_hash", Answer: No, Reason: "late", Remedy: "wait", Kind: ErrOccupied}
	for _, test := range []struct {
		name  string
		needs []Check
		want  Check
	}{
		{"nothing needed", nil, yes("x")},
		{"all there", []Check{yes("a"), yes("b")}, yes("x")},
		{"one missing", []Check{yes("a"), late, no("b", "later", "")}, Check{"x", No, "late", "wait", ErrOccupied}},
		{"a no counts before an unknown", []Check{unknown("a", "not tried"), late}, Check{"x", No, "late", "wait", ErrOccupied}},
		{"unknown", []Check{yes("a"), unknown("b", "not tried")}, unknown("x", "not tried")},
		{"no reason", []Check{{Key: "lru_hash", Answer: No}}, no("x", "lru hash: no", "")},
		{"never checked", []Check{Checks{}.Get("prog_array")}, unknown("x", "prog array: unknown")},
	} {
		expect(t, test.name, test.want, all("x", test.needs...))
	}
}

func TestChecksJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(Checks{yes("b"), no("a", "why", "what"), {Key: "c", Answer: No, Kind: ErrOccupied}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"b":{"answer":"yes"},"a":{"answer":"no","reason":"why","remedy":"what"},"c":{"answer":"no"}}`
	expect(t, "JSON", want, string(got))
}
