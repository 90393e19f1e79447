// Package escape makes texts safe to print: what a terminal or a shell would take for something
// else is escaped.
package escape

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is s with everything escaped, as in a Go string, that a terminal would not print as it
// stands. The names of interfaces and files may have control characters, which would change what
// else the terminal shows.
func Text(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteString(s[:n])
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}

// JSON is marshalled JSON with everything escaped that JSON leaves as it is and a terminal would
// not print: DEL, and what Text escapes outside of ASCII. The values are the same.
func JSON(b []byte) []byte {
	at := slices.IndexFunc(b, func(c byte) bool { return c >= 0x7f })
	if at < 0 {
		return b
	}
	escaped := append(make([]byte, 0, len(b)+16), b[:at]...)
	for rest := b[at:]; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f || r > 0x7f && strconv.IsPrint(r):
			escaped = append(escaped, rest[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	return escaped
}

// NewJSONEncoder is json.NewEncoder, with each value as JSON returns it.
func NewJSONEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(jsonWriter{w}) }

// A jsonWriter writes what json.Encoder hands it, which is a whole value by each call, so that no
// character is in two calls.
type jsonWriter struct{ io.Writer }

func (w jsonWriter) Write(b []byte) (int, error) {
	if _, err := w.Writer.Write(JSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ShellWord is an argument as a shell reads it.
func ShellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"
	switch {
	case s != "" && strings.Trim(s, plain) == "":
		return s
	case Text(s) != s:
		return "$'" + Text(strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// CommandLine is the command as a shell reads it.
func CommandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = ShellWord(arg)
	}
	return strings.Join(words, " ")
}
