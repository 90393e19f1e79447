package message

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

// Escape returns s with every character that a terminal would not print literally escaped, as in a
// Go string. The names of interfaces and files may have control characters, which would change the
// rest of the terminal's output.
func Escape(s string) string {
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

// EscapeJSON also escapes, in the output of encoding/json, DEL and the characters outside of ASCII
// that a terminal would not print literally. The values do not change.
func EscapeJSON(b []byte) []byte {
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

// NewJSONEncoder is like json.NewEncoder, but escapes each value by EscapeJSON.
func NewJSONEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(jsonWriter{w}) }

// A jsonWriter escapes the output of a json.Encoder, which writes each value by a single call, so
// that no character is split between two calls.
type jsonWriter struct{ io.Writer }

func (w jsonWriter) Write(b []byte) (int, error) {
	if _, err := w.Writer.Write(EscapeJSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ShellWord quotes an argument for a shell.
func ShellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"
	switch {
	case s != "" && strings.Trim(s, plain) == "":
		return s
	case Escape(s) != s:
		return "$'" + Escape(strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// CommandLine joins a command's arguments, quoted for a shell.
func CommandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = ShellWord(arg)
	}
	return strings.Join(words, " ")
}
