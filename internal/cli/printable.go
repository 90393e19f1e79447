package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printable is s with everything escaped, as in a Go string, that a terminal would not print as it
// stands. The names of interfaces and files may have control characters, which would change what
// else the terminal shows.
func printable(s string) string {
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

// say prints a message for the user as one line.
func say(out io.Writer, format string, args ...any) {
	fmt.Fprintf(out, "xdpcap: %s\n", printable(fmt.Sprintf(format, args...)))
}

// shellWord is an argument as a shell reads it.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"
	switch {
	case s != "" && strings.Trim(s, plain) == "":
		return s
	case printable(s) != s:
		return "$'" + printable(strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// commandLine is the command as a shell reads it.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = shellWord(arg)
	}
	return strings.Join(words, " ")
}
