package extcap

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A setting is a row of the table: Wireshark shows the group, the help and the words of its flag.
// It runs alone, because it replaces the table.
func TestAddedSetting(t *testing.T) {
	before := settings
	defer func() { settings = before }()
	settings = append(slices.Clone(before[:0]),
		setting{flag: "speed", display: "How fast", kind: "selector", values: defaultOrWords},
		setting{flag: "colour", display: "Colours", kind: "multicheck", values: words})
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	frame.AddGroup(flags, "Pace", func(f *pflag.FlagSet) {
		f.String("speed", "", "go at this `speed`")
		frame.TakesWords(f, "speed", "slow", "fast")
		f.StringSlice("colour", nil, "these `colours`")
		frame.TakesList(f, "colour", "red", "blue")
	})
	var out bytes.Buffer
	if err := new(Options).listSettings(&out, flags, "lo"); err != nil {
		t.Fatal(err)
	}
	want := `arg {number=0}{call=--speed}{display=How fast}{tooltip=go at this speed}{type=selector}{group=Pace}
value {arg=0}{value=}{display=the default}{default=true}
value {arg=0}{value=slow}{display=slow}{default=false}
value {arg=0}{value=fast}{display=fast}{default=false}
arg {number=1}{call=--colour}{display=Colours}{tooltip=these colours}{type=multicheck}{group=Pace}
value {arg=1}{value=red}{display=red}{default=false}
value {arg=1}{value=blue}{display=blue}{default=false}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
