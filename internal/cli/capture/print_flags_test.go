package capture

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/dissect"
)

// The flags of printing combine as tcpdump's do: letters behind one dash, counted.
func TestPrintFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]dissect.Options{
		"":               {},
		"-e -q -#":       {LinkLevel: true, Quiet: true, Number: true},
		"--lengths":      {Lengths: true},
		"-nnvvve":        {Verbose: 3, LinkLevel: true},
		"-t":             {Time: dissect.NoTime},
		"-ttttnve":       {Time: dissect.LocalDate, Verbose: 1, LinkLevel: true},
		"-tt -ttt":       {Time: dissect.SinceFirst},
		"-tttttttt":      {Time: dissect.SinceFirst},
		"-x":             {Dump: dissect.HexDump},
		"-xx":            {Dump: dissect.HexDump, DumpLinkLevel: true},
		"-nXX -s 100":    {Dump: dissect.HexASCIIDump, DumpLinkLevel: true},
		"-A -c 3 -i lo":  {Dump: dissect.ASCIIDump},
		"-AXxx":          {Dump: dissect.HexASCIIDump},
		"-A -x":          {Dump: dissect.HexDump},
		"-AA --number":   {Dump: dissect.ASCIIDump, DumpLinkLevel: true, Number: true},
		"-enqttXvvi eth": {LinkLevel: true, Quiet: true, Time: dissect.UnixTime, Dump: dissect.HexASCIIDump, Verbose: 2},
	} {
		var o Options
		if err := newCommand(&o).ParseFlags(strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if diff := cmp.Diff(want, o.printing.Format(false).Options); diff != "" {
			t.Errorf("%s (-want +got): %s", line, diff)
		}
	}
}
