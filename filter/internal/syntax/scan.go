package syntax

import (
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// shape is a form of word. At each position the longest match wins; of equally long ones, the first
// in the list.
type shape struct {
	kind Kind
	re   *regexp.Regexp
}

// shapes are compiled on first use, because a program that reads its filter with ParseRaw never
// needs them.
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
		kind Kind
		re   string
	}{
		{KindArcnet, `\$` + b},
		{KindEther, mac},
		{KindNumber, n},
		{KindIPv4, n + `(\.` + n + `){1,3}`},
		{KindIPv6, ipv6Shape(n)},
		{KindRefused, b + `:+(` + b + `:+)+`}, // a MAC address gone wrong
		{KindName, `[A-Za-z0-9]([-_.A-Za-z0-9]*[.A-Za-z0-9])?`},
		{KindName, `\\[^ !()\n\t]+`},
		{KindSet, `@[A-Za-z0-9_]+`},
	}
	var out []shape
	for _, w := range words {
		re := regexp.MustCompile(`^(` + w.re + `)`)
		re.Longest()
		out = append(out, shape{w.kind, re})
	}
	return out
})

// ipv6Shape matches eight groups, or fewer of them around one "::". The last two groups may be
// written as an IPv4 address.
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

// operators are the operators of two characters.
var operators = []struct {
	text string
	tok  Token
}{
	{">=", Token{Kind: KindSymbol, Num: SymGE}}, {"<=", Token{Kind: KindSymbol, Num: SymLE}},
	{"!=", Token{Kind: KindSymbol, Num: SymNE}}, {"==", Token{Kind: KindSymbol, Num: '='}},
	{"<<", Token{Kind: KindSymbol, Num: SymLSH}}, {">>", Token{Kind: KindSymbol, Num: SymRSH}},
	{"&&", Token{Kind: KindAnd}}, {"||", Token{Kind: KindOr}},
}

// scan cuts the expression into words. The last token is of KindEnd.
func scan(text string) []Token {
	var out []Token
	for pos := 0; ; {
		for pos < len(text) && strings.IndexByte(" \r\n\t", text[pos]) >= 0 {
			pos++
		}
		if pos == len(text) {
			return append(out, Token{Kind: KindEnd, Pos: pos})
		}
		t := scanWord(text[pos:], pos)
		out = append(out, t)
		pos += len(t.Text)
	}
}

// scanWord reads the word at the start of rest, which is at pos in the expression.
func scanWord(rest string, pos int) Token {
	t := Token{Pos: pos}
	if strings.IndexByte("()!=<>&|+-*/%^[]", rest[0]) >= 0 {
		return scanOperator(rest, pos) // no word begins like this
	}
	for _, s := range shapes() {
		if m := s.re.FindString(rest); len(m) > len(t.Text) {
			t.Kind, t.Text = s.kind, m
		}
	}
	switch {
	case t.Text == "":
		return scanOperator(rest, pos)
	case t.Kind == KindName:
		return classify(t)
	case t.Kind == KindNumber:
		t.Num = scanNumber(t)
	case t.Kind == KindIPv6:
		if _, err := netip.ParseAddr(t.Text); err != nil {
			t.Fail("", "not an IPv6 address")
		}
	case t.Kind == KindRefused:
		t.Fail("write six groups, as in 02:00:5e:10:00:00", "not an Ethernet address")
	}
	return t
}

// scanOperator reads the operator at the start of rest.
func scanOperator(rest string, pos int) Token {
	for _, o := range operators {
		if strings.HasPrefix(rest, o.text) {
			o.tok.Pos, o.tok.Text = pos, o.text
			return o.tok
		}
	}
	first, n := utf8.DecodeRuneInString(rest)
	t := Token{Kind: KindSymbol, Pos: pos, Text: rest[:n], Num: uint32(first)}
	if !strings.ContainsRune(`+-*/%:[]!<>()&|^=`, first) {
		hint := ""
		if first == ',' {
			hint = "write or between alternatives, as in port 53 or port 80"
		}
		t.Fail(hint, "unexpected character")
	}
	return t
}

// classify finds names that are keywords. A backslash in front makes any word a plain name.
func classify(t Token) Token {
	if t.Text[0] == '\\' {
		return t
	}
	if k, ok := keywords[t.Text]; ok {
		t.Kind, t.Num = k.kind, k.num
	} else if p, ok := protocols[t.Text]; ok {
		t.Kind, t.Num = KindProtocol, uint32(p)
	} else if v, ok := constants[t.Text]; ok {
		t.Kind, t.Num = KindNumber, v
	} else if _, ok := refusals[t.Text]; ok {
		t.Kind = KindRefused
	}
	return t
}

// scanNumber reads a decimal number, a hexadecimal number that starts with 0x, or an octal number
// that starts with 0.
func scanNumber(t Token) uint32 {
	digits, base := t.Text, uint64(10)
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
			t.Fail("a leading 0 makes a number octal", "not an octal number")
		}
		if v = v*base + d; v > 0xffffffff {
			t.Fail("", "number does not fit in 32 bits")
		}
	}
	return uint32(v)
}
