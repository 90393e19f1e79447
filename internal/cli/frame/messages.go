package frame

import (
	"errors"
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/message"
)

// Say prints a message for the user as one line.
func Say(out io.Writer, format string, args ...any) {
	fmt.Fprintf(out, "xdpcap: %s\n", message.Escape(fmt.Sprintf(format, args...)))
}

// Messages returns a line for each error that errors.Join has joined, with its remedy.
func Messages(err error) (lines []string) {
	for _, one := range Joined(err) {
		lines = append(lines, WithRemedy(one.Error(), one))
	}
	return lines
}

// Joined returns the errors that errors.Join has joined, or err itself.
func Joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	errs := several.Unwrap()
	if len(errs) == 0 || errors.Join(errs...).Error() != err.Error() {
		return []error{err} // one error of a certain kind, not several errors
	}
	var all []error
	for _, one := range errs {
		all = append(all, Joined(one)...)
	}
	return all
}
