package frame

import (
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/escape"
)

// Say prints a message for the user as one line.
func Say(out io.Writer, format string, args ...any) {
	fmt.Fprintf(out, "xdpcap: %s\n", escape.Text(fmt.Sprintf(format, args...)))
}
