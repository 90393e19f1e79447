package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"plain words", []string{"xdpcap", "-i", "rx0"}, "xdpcap -i rx0"},
		{"a word with spaces", []string{"xdpcap", "tcp port 443"}, "xdpcap 'tcp port 443'"},
		{"an empty word", []string{"xdpcap", ""}, "xdpcap ''"},
		{"a quote", []string{"xdpcap", "it's"}, `xdpcap 'it'\''s'`},
		{"what a shell would expand", []string{"xdpcap", "(tcp)", "$x", "*"}, "xdpcap '(tcp)' '$x' '*'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := commandLine(&exec.Cmd{Args: test.args}); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

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

func TestLineWatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		writes []string
		found  bool
	}{
		{"in one write", []string{"xdpcap: listening on rx0\n"}, true},
		{"in pieces", []string{"hello\nxdpcap: list", "ening on rx0", "\n"}, true},
		{"twice", []string{"listening on rx0\nlistening on rx1\n"}, true},
		{"over two lines", []string{"listening\non rx0\n"}, false},
		{"the line has not ended", []string{"listening on rx0"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			w := &lineWatch{out: &out, word: []byte("listening on"), found: make(chan struct{})}
			for _, text := range test.writes {
				if _, err := w.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			found := false
			select {
			case <-w.found:
				found = true
			default:
			}
			if found != test.found {
				t.Errorf("found %v, want %v", found, test.found)
			}
			if got, want := out.String(), strings.Join(test.writes, ""); got != want {
				t.Errorf("passed on %q, want %q", got, want)
			}
		})
	}
}
