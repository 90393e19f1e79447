package main

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("→", columns)
	for _, test := range []struct{ name, line, want string }{
		{"short", "a packet", "a packet"},
		{"just fits", long, long},
		{"a character too long", long + "x", strings.Repeat("→", columns-3) + "..."},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := shorten(test.line); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
