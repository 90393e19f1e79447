package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Every transport of package capture stands in the help, completes, can be chosen in Wireshark, and
// is probed.
func TestTransports(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	root := newCommand(new(Options))
	complete, _ := root.GetFlagCompletionFunc("transport")
	names, _ := complete(root, nil, "")
	var wireshark strings.Builder
	root.SetOut(&wireshark)
	root.SetArgs([]string{"--extcap-interface", "xdpcap-lo", "--extcap-config", "--extcap-reload-option", "transport"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	probed := []string{support.FeaturePerf, support.FeatureRing}
	for _, transport := range append(capture.Transports(), capture.TransportAuto) {
		name := transport.String()
		about := fmt.Sprintf("%s (%s)", name, transport.About())
		if usage := root.Flags().Lookup("transport").Usage; transport.About() == "" || !strings.Contains(usage, about) {
			t.Errorf("the help of --transport has no %q: %s", about, usage)
		}
		if !slices.Contains(names, name) || !strings.Contains(wireshark.String(), "{value="+name+"}") {
			t.Errorf("%s is not among %v, or not among %v", name, names, &wireshark)
		}
		if transport == capture.TransportAuto {
			continue
		}
		if usage := root.Flags().Lookup("snapshot-length").Usage; !strings.Contains(usage, fmt.Sprint(transport.MaxSnapLen())) {
			t.Errorf("the help of -s does not say what is most with %s: %s", name, usage)
		}
		if !slices.Contains(probed, support.TransportPrefix+name) {
			t.Errorf("%s is not probed", name)
		}
	}
}
