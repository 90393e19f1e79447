package testnet

import (
	"testing"
)

// Fatalf ends a function, whose cleanups then run, the last one first. Errors are joined.
func TestTry(t *testing.T) {
	t.Parallel()
	order := ""
	err := Try(t.Context(), func(t TB) {
		t.Cleanup(func() { order += "a" })
		t.Cleanup(func() { order += "b"; t.Fatalf("cleanup") })
		Within(t, func(t TB) {
			t.Cleanup(func() { order += "c" })
			t.Errorf("first")
			t.Fatalf("second")
		})
		order += "not reached"
	})
	if order != "cba" || err == nil || err.Error() != "first\nsecond\ncleanup" {
		t.Errorf("order %s, error %v", order, err)
	}
	if err := Try(t.Context(), func(TB) {}); err != nil {
		t.Error(err)
	}
}
