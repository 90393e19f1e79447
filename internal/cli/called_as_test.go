package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/config"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Under the name tcpdump a capture has both directions and writes pcap, unless it is told
// otherwise.
func TestCalledAs(t *testing.T) {
	testnet.SkipEmulated(t)
	for _, test := range []struct{ name, user, args, direction, format string }{
		{"xdpcap", "", "-i none0", "in", ""},
		{"/usr/bin/tcpdump", "", "-i none0", "inout", "pcap"},
		{"/tmp/static-tcpdump", "", "-i none0", "inout", "pcap"}, // ksniff's
		{"tcpdump", "", "-i none0 -Q in --format pcapng", "in", "pcapng"},
		{"tcpdump", "direction = out\n", "-i none0", "out", "pcap"},
		{"tcpdump-4.99", "", "-i none0", "in", ""},
		{"/opt/tcpdump/xdpcap", "", "-i none0", "in", ""},
	} {
		t.Run(test.name+" "+test.args, func(t *testing.T) {
			set := config.Settings{Files: setSettings(t, "", test.user), NewRoot: NewRoot}
			set.Files.Unset = calledAs(test.name)
			root := NewRoot()
			root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
				if err := set.Apply(cmd, new(capture.Options).Hears); err != nil {
					t.Error(err)
				}
				for flag, want := range map[string]string{"direction": test.direction, "format": test.format} {
					if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
						t.Errorf("--%s is %q, want %q", flag, got, want)
					}
				}
				return errDone
			}
			root.SetArgs(strings.Fields(test.args))
			if err := root.Execute(); err != errDone {
				t.Fatal(err)
			}
		})
	}
}
