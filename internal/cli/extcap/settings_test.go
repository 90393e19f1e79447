package extcap

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// Wireshark shows the group, the help and the words of a flag that has a dialog.
func TestAddedSetting(t *testing.T) {
	t.Parallel()
	var o Options
	cmd := new(cobra.Command)
	flags := []frame.Flag{
		{Name: "colour", Value: new(frame.List), Words: []string{"red", "blue"}, List: true, Help: "these `colours`",
			Dialog: frame.Dialog{Place: 1, Label: "Colours"}},
		{Name: "speed", Value: new(string), Words: []string{"slow", "fast"}, Help: "go at this `speed`",
			Dialog: frame.Dialog{Place: 0, Label: "How fast"}},
		{Name: "silent", Value: new(bool), Help: "be silent"},
	}
	frame.AddFlags(cmd, "Pace", flags...)
	o.Show("Pace", flags)
	var out bytes.Buffer
	if err := o.listSettings(&out, cmd.Flags(), "lo"); err != nil {
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
