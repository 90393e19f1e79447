package filter

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// TestCaret compares the text for users. It catches an underline under the wrong word and a missing
// hint.
func TestCaret(t *testing.T) {
	t.Parallel()
	for _, want := range []string{
		`tcp prot 80
    ^^^^
syntax error
did you mean port or proto?`,
		`tcp port 80 andd udp
            ^^^^
syntax error
did you mean and?`,
		`dns
^^^
syntax error
write port 53`,
		`src port dns
         ^^^
unknown port
write port 53`,
		`192.0.2.1
^^^^^^^^^
syntax error
put a word like host, net or port before it`,
		`host 192.0.2.1 and (tcp port 80
                   ^
parenthesis is never closed`,
		`tcp port
        ^
syntax error: the expression ends too early`,
		`ip proto tcp
         ^^^
syntax error
to use this word as a name, put a \ before it`,
		`len + 5
       ^
syntax error: a number alone is no test
compare it, as in len > 100`,
		`ether protochain 6
                 ^
the protocol before it has no chain of headers
write ip protochain or ip6 protochain`,
		`port 8o
     ^^
unknown port
no port 8o`,
		`ether host gateway.example
           ^^^^^^^^^^^^^^^
names of Ethernet addresses are not looked up
write the MAC address`,
		`vlan 4096
     ^^^^
vlan number is more than 4095`,
		`net 10.0.0.1/8
    ^^^^^^^^
the address has host bits set
did you mean 10.0.0.0/8?`,
		`net 10.0.3.0 mask 255.255.0.0
    ^^^^^^^^
the address has host bits set
did you mean 10.0.0.0 mask 255.255.0.0?`,
		`net 2001:db8::1/32
    ^^^^^^^^^^^
the address has host bits set
did you mean 2001:db8::/32?`,
		`port 53,80
       ^
unexpected character
write or between alternatives, as in port 53 or port 80`,
		`tcp.port == 443
^^^^^^^^
this is a Wireshark display filter
write it as in tcp port 443`,
		`icmp or ip.addr == 10.0.0.1
        ^^^^^^^
this is a Wireshark display filter
write it as in host 192.0.2.1`,
		`type mgt
^^^^
filters do not know 802.11
choose from a file with tcpdump -r FILE -w - FILTER | xdpcap read -`,
		`vpi 3
^^^
ATM does not exist on Ethernet
remove it`,
		`ifindex 2
^^^^^^^
the interface is chosen outside the filter
remove it`,
		`ip broadcast
   ^^^^^^^^^
the interface's netmask is not known
capture on an interface that has an IPv4 address, or write ether broadcast`,
		`tcp and udp
^^^^^^^^^^^
expression rejects all packets`,
		`port 80 or tcp[0:3] = 1
                 ^
cannot load this many bytes at once
write 1, 2 or 4`,
		`host ünknown
     ^
unexpected character`,
	} {
		text, _, _ := strings.Cut(want, "\n")
		_, err := Compile(text, Options{Resolver: filtertest.Resolver{}})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v is no *Error", text, err)
			continue
		}
		if diff := cmp.Diff(want, e.Caret()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestCaretControl catches an underline that a tab, a newline or a multi-byte character moves.
func TestCaretControl(t *testing.T) {
	t.Parallel()
	e := &Error{Text: "ip\tand\nfü $", Pos: strings.Index("ip\tand\nfü $", "$"), Word: "$", Message: "m"}
	if diff := cmp.Diff("ip and fü $\n          ^\nm", e.Caret()); diff != "" {
		t.Error(diff)
	}
	e = &Error{Text: "ip \x1b[1m\xff x", Pos: 9, Word: "x", Message: "\x1b[2J", Hint: "\u202e"}
	if diff := cmp.Diff("ip \ufffd[1m\ufffd x\n         ^\n\ufffd[2J\n\ufffd", e.Caret()); diff != "" {
		t.Error(diff)
	}
}

// TestCaretWindow catches an error that repeats a whole long expression, and an underline under the
// wrong word of it.
func TestCaretWindow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ip or ", 1e5)
	for name, e := range map[string]*Error{
		"start":      {Text: "prt 80 or " + long + "ip", Word: "prt"},
		"middle":     {Text: long + "prt 80 or " + long + "ip", Pos: len(long), Word: "prt"},
		"end":        {Text: long + "prt", Pos: len(long), Word: "prt"},
		"behind":     {Text: long, Pos: len(long)},
		"everything": {Text: long + "ip", Word: long + "ip"},
		"one word":   {Text: "host " + strings.Repeat("x", 1e6), Pos: 5, Word: strings.Repeat("x", 1e6), Hint: strings.Repeat("x", 1e6)},
	} {
		e.Message = "m"
		lines := strings.Split(e.Caret(), "\n")
		for _, line := range append(lines, e.Error()) {
			if n := utf8.RuneCountInString(line); n > 200 {
				t.Errorf("%s: a line of %d characters", name, n)
			}
		}
		text, under := []rune(lines[0]+" "), []rune(lines[1])
		if len(under) > len(text) || len(text) < 50 {
			t.Fatalf("%s:\n%s\n%s", name, lines[0], lines[1])
		}
		if e.Word == "prt" && string(text[len(under)-3:len(under)]) != "prt" || !strings.HasSuffix(lines[1], "^") {
			t.Errorf("%s:\n%s\n%s", name, lines[0], lines[1])
		}
	}
}

// TestKinds catches an error with a missing or a wrong kind, and an error whose text repeats that
// of its kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr string
		want error
	}{
		{"ether host printer", ErrUnsupported},
		{"ifindex 2", ErrInterface},
		{"tcp prot 80", nil},
	} {
		_, err := Compile(c.expr, Options{})
		for _, kind := range []error{ErrUnsupported, ErrInterface} {
			if got, want := errors.Is(err, kind), kind == c.want; got != want {
				t.Errorf("%s: errors.Is(%v, %v) is %v, want %v", c.expr, err, kind, got, want)
			}
			if strings.Contains(err.Error(), kind.Error()) {
				t.Errorf("%s: the error %q repeats its kind", c.expr, err)
			}
		}
	}
}

// TestNesting catches a stack overflow, which no recover stops.
func TestNesting(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"(", "not ", "-", "ip[", "vlan ("} {
		if _, err := Compile(strings.Repeat(open, 2e4), Options{}); err == nil {
			t.Errorf("%q accepted", open)
		}
	}
	if _, err := Compile(strings.Repeat("(", 500)+"ip"+strings.Repeat(")", 500), Options{}); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"negative": {SnapLen: -1}, "huge": {SnapLen: 1 << 40}, "mask": {Netmask: make([]byte, 16)}} {
		if _, err := Compile("ip", o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
