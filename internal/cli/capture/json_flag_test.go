package capture

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// Where lines and the object of --json go to the same place, a note names the flag for packets as
// JSON. A program that reads only the object gets no other text.
func TestJSONExplainsLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		json   jsonFlag
		lines  bool
		apart  bool
		spoken bool
	}{
		{"together", jsonFlag{true, onStderr, nil, false}, false, false, true},
		{"apart", jsonFlag{true, onStderr, nil, false}, false, true, false},
		{"packets as JSON", jsonFlag{true, onStderr, nil, false}, true, false, false},
		{"into a file", jsonFlag{true, "counts.json", nil, false}, false, false, false},
		{"without", jsonFlag{}, false, false, false},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout := write
		if test.apart {
			if stdout, err = os.Open(os.DevNull); err != nil {
				t.Fatal(err)
			}
			defer stdout.Close()
		}
		o := Options{json: test.json, lines: test.lines}
		o.Process = frame.NewProcess(stdout, write)
		o.json.explainLines(&o)
		write.Close()
		text, err := io.ReadAll(read)
		read.Close()
		if spoken := strings.Contains(string(text), "--format json prints the packets"); err != nil || spoken != test.spoken {
			t.Errorf("%s: %q, %v", test.name, text, err)
		}
	}
}
