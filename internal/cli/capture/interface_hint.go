package capture

import (
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/escape"
)

// otherCommands are words that people type, with the commands that do it.
var otherCommands = map[string]string{
	"version": "xdpcap --version", "list": "xdpcap interfaces", "merge": "xdpcap read -w OUT FILE...", "capture": "xdpcap -i NAME",
	"convert": "xdpcap read -w OUT FILE",
}

// withoutInterface is the error of a capture without an interface, which takes its words for a
// filter. list is the command that lists the interfaces.
func withoutInterface(words []string, list string) error {
	if len(words) > 0 {
		if instead := otherCommands[words[0]]; instead != "" {
			return fmt.Errorf("there is no command %q: say %s", words[0], instead)
		}
		if outputs.IsCaptureName(words[0]) {
			return fmt.Errorf("%s is a file: read it with xdpcap read %s", words[0], escape.ShellWord(words[0]))
		}
	}
	return errors.New("which interface? -i NAME, or -i any for all; " + list + " lists them")
}
