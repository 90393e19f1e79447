package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/support"
)

// Every transport of package capture can be chosen, is explained in the help, and is probed.
func TestTransports(t *testing.T) {
	t.Parallel()
	flags := newCommand(new(Options)).Flags()
	flag := flags.Lookup("transport")
	for _, transport := range append(capture.Transports(), capture.TransportAuto) {
		name := transport.String()
		about := fmt.Sprintf("%s (%s)", name, transport.About())
		if transport.About() == "" || !strings.Contains(flag.Usage, about) || !slices.Contains(frame.WordsOf(flag), name) {
			t.Errorf("--transport takes %v, and its help has no %q: %s", frame.WordsOf(flag), about, flag.Usage)
		}
		if transport == capture.TransportAuto {
			continue
		}
		if usage := flags.Lookup("snapshot-length").Usage; !strings.Contains(usage, fmt.Sprint(transport.MaxSnapLen())) {
			t.Errorf("the help of -s does not say what is most with %s: %s", name, usage)
		}
		if !slices.Contains([]string{support.FeaturePerf, support.FeatureRing}, support.TransportPrefix+name) {
			t.Errorf("%s is not probed", name)
		}
	}
}
