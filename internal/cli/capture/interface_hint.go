package capture

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/escape"
)

// withoutInterface is the error of a capture without an interface, which takes its words for a
// filter.
func withoutInterface(p *frame.Process, words []string) error {
	if len(words) > 0 && outputs.IsCaptureName(words[0]) {
		return fmt.Errorf("%s is a file: read it with xdpcap read %s", words[0], escape.ShellWord(words[0]))
	}
	return p.WhichInterface(", or -i any for all")
}
