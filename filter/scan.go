package filter

import (
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// shape is a form of word. The longest match at a position wins, and of equally long ones the first listed.
type shape struct {
	kind kind
	re   *regexp.Regexp
}

// shapes are built on first use: most users of the package's raw programs never scan.
var shapes = sync.OnceValue(func() []shape {
	const (
		n  = `(0[xX][0-9A-Fa-f]+|[0-9]+)`
		b  = `[0-9A-Fa-f]{1,2}`
		b2 = `[0-9A-Fa-f]{4}`
	)
	mac := strings.Join([]string{
		b + strings.Repeat(":"+b, 5), b + strings.Repeat("-"+b, 5), b + strings.Repeat(`\.`+b, 5),
		b2 + `\.` + b2 + `\.` + b2, b2 + b2 + b2}, "|")
	words := []struct {
		kind kind
		re   string
	}{
		{kArcnet, `\$` + b},
		{kEther, mac},
		{kNumber, n},
		{kIPv4, n + `(\.` + n + `){1,3}`},
		{kIPv6, ipv6Shape(n)},
		{kRefused, b + `:+(` + b + `:+)+`}, // a MAC address gone wrong
		{kName, `[A-Za-z0-9]([-_.A-Za-z0-9]*[.A-Za-z0-9])?`},
		{kName, `\\[^ !()\n\t]+`},
	}
	var out []shape
	for _, w := range words {
		re := regexp.MustCompile(`^(` + w.re + `)`)
		re.Longest()
		out = append(out, shape{w.kind, re})
	}
	return out
})

// ipv6Shape matches eight groups, or fewer around one "::", the last two perhaps as dotted numbers.
func ipv6Shape(n string) string {
	const w = `[0-9A-Fa-f]{1,4}`
	v4 := n + `(\.` + n + `){3}`
	join := func(k int) string { return strings.TrimSuffix(strings.Repeat(w+":", k), ":") }
	alts := []string{join(8), join(6) + ":" + v4}
	for groups := range 8 {
		for left := range groups + 1 {
			alts = append(alts, join(left)+"::"+join(groups-left))
			if groups <= 5 {
				alts = append(alts, join(left)+"::"+strings.Repeat(w+":", groups-left)+v4)
			}
		}
	}
	return strings.Join(alts, "|")
}

var operators = []struct {
	text string
	tok  token
}{
	{">=", token{kind: kSymbol, num: symGE}}, {"<=", token{kind: kSymbol, num: symLE}},
	{"!=", token{kind: kSymbol, num: symNE}}, {"==", token{kind: kSymbol, num: '='}},
	{"<<", token{kind: kSymbol, num: symLSH}}, {">>", token{kind: kSymbol, num: symRSH}},
	{"&&", token{kind: kAnd}}, {"||", token{kind: kOr}},
}

// scan cuts the expression into words. The last token is kEnd.
func scan(text string) []token {
	var out []token
	for pos := 0; ; {
		for pos < len(text) && strings.IndexByte(" \r\n\t", text[pos]) >= 0 {
			pos++
		}
		if pos == len(text) {
			return append(out, token{kind: kEnd, pos: pos})
		}
		t := scanWord(text[pos:], pos)
		out = append(out, t)
		pos += len(t.text)
	}
}

func scanWord(rest string, pos int) token {
	t := token{pos: pos}
	if strings.IndexByte("()!=<>&|+-*/%^[]", rest[0]) >= 0 {
		return scanOperator(rest, pos) // no word begins like this
	}
	for _, s := range shapes() {
		if m := s.re.FindString(rest); len(m) > len(t.text) {
			t.kind, t.text = s.kind, m
		}
	}
	switch {
	case t.text == "":
		return scanOperator(rest, pos)
	case t.kind == kName:
		return classify(t)
	case t.kind == kNumber:
		t.num = scanNumber(t)
	case t.kind == kIPv6:
		if _, err := netip.ParseAddr(t.text); err != nil {
			fail(t, "", "not an IPv6 address")
		}
	case t.kind == kRefused:
		fail(t, "write six groups, as in 02:00:5e:10:00:00", "not an Ethernet address")
	}
	return t
}

func scanOperator(rest string, pos int) token {
	for _, o := range operators {
		if strings.HasPrefix(rest, o.text) {
			o.tok.pos, o.tok.text = pos, o.text
			return o.tok
		}
	}
	first, n := utf8.DecodeRuneInString(rest)
	t := token{kind: kSymbol, pos: pos, text: rest[:n], num: uint32(first)}
	if !strings.ContainsRune(`+-*/%:[]!<>()&|^=`, first) {
		fail(t, "", "no filter has this character")
	}
	return t
}

// classify tells keywords from names. A backslash makes any word a name.
func classify(t token) token {
	if t.text[0] == '\\' {
		return t
	}
	if k, ok := keywords[t.text]; ok {
		t.kind, t.num = k.kind, k.num
	} else if p, ok := protocols[t.text]; ok {
		t.kind, t.num = kProtocol, uint32(p)
	} else if v, ok := constants[t.text]; ok {
		t.kind, t.num = kNumber, v
	} else if _, ok := refusals[t.text]; ok {
		t.kind = kRefused
	}
	return t
}

// scanNumber reads decimal, 0x hexadecimal and 0 octal.
func scanNumber(t token) uint32 {
	digits, base := t.text, uint64(10)
	switch {
	case len(digits) > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'):
		digits, base = digits[2:], 16
	case digits[0] == '0':
		base = 8
	}
	var v uint64
	for _, c := range strings.ToLower(digits) {
		d := uint64(strings.IndexRune("0123456789abcdef", c))
		if d >= base {
			fail(t, "a leading 0 makes a number octal", "not an octal number")
		}
		if v = v*base + d; v > 0xffffffff {
			fail(t, "", "number does not fit in 32 bits")
		}
	}
	return uint32(v)
}
