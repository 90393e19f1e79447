package main

import (
	"testing"
)

// Fatalf ends a measurement, whose cleanups then run, the last one first. Errors are joined.
func TestTry(t *testing.T) {
	t.Parallel()
	order := ""
	err := try(t.Context(), func(t tb) {
		t.Cleanup(func() { order += "a" })
		t.Cleanup(func() { order += "b"; t.Fatalf("cleanup") })
		within(t, func(t tb) {
			t.Cleanup(func() { order += "c" })
			t.Errorf("first")
			t.Fatalf("second")
		})
		order += "not reached"
	})
	if order != "cba" || err == nil || err.Error() != "first\nsecond\ncleanup" {
		t.Errorf("order %s, error %v", order, err)
	}
	if err := try(t.Context(), func(tb) {}); err != nil {
		t.Error(err)
	}
}
