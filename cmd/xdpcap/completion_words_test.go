package main_test

import (
	"bytes"
	"testing"
)

// What a shell shows of flags and commands has no marks of the help in it.
func TestCompletionDescriptions(t *testing.T) {
	skipEmulated(t)
	for _, args := range [][]string{{"__complete", "--"}, {"__complete", "count", "--"}, {"__complete", "read", "--"}, {"__complete", ""}} {
		out, err := command(args...).Output()
		if err != nil || bytes.Contains(out, []byte("`")) || bytes.Count(out, []byte("\t")) < 5 {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}
