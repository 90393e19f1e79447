// Package escape makes texts safe to print: what a terminal or a shell would take for something
// else is escaped.
package escape

import (
	"fmt"
	"strconv"
	"strings"
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
