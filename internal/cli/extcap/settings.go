package extcap

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A setting is a flag of the capture that can be set in Wireshark's dialog for an interface.
type setting struct {
	frame.Flag
	group string // the tab of the dialog
}

// Show adds the flags of a group that have a Dialog to Wireshark's dialog.
func (o *Options) Show(group string, flags []frame.Flag) {
	for _, f := range flags {
		if f.Dialog.Label != "" {
			o.settings = append(o.settings, setting{f, cmp.Or(f.Dialog.Group, group)})
		}
	}
	slices.SortFunc(o.settings, func(a, b setting) int { return cmp.Compare(a.Dialog.Place, b.Dialog.Place) })
}

// RunningPrograms returns the choices for --program at an interface. Programs are chosen by their
// ids, because several may have the same name.
func RunningPrograms(ifname string) ([]frame.Choice, error) {
	values := []frame.Choice{{Word: "", Label: "the one that runs there"}, {Word: "all", Label: "all that a dispatcher calls"}}
	ifi, err := xdp.InterfaceByName(ifname)
	if err != nil {
		return nil, err
	}
	running, err := xdp.Running(ifi)
	if err != nil {
		return nil, err
	}
	for _, p := range running {
		values = append(values, frame.Choice{Word: strconv.FormatUint(uint64(p.ID), 10), Label: p.String()})
	}
	return values, nil
}

// listSettings prints the settings of an interface, or, if o.reload is set, only the values of that
// setting.
func (o *Options) listSettings(out io.Writer, flags *pflag.FlagSet, ifname string) error {
	for number, s := range o.settings {
		kind, more := s.widget()
		if o.reload == "" {
			_, tooltip := pflag.UnquoteUsage(flags.Lookup(s.Name))
			fmt.Fprintf(out, "arg {number=%d}{call=--%s}{display=%s}{tooltip=%s}{type=%s}{group=%s}%s\n",
				number, s.Name, s.Dialog.Label, text(tooltip), kind, s.group, more)
		} else if strings.TrimLeft(o.reload, "-") != s.Name {
			continue
		}
		values, err := s.values(ifname)
		if err != nil {
			return err
		}
		for i, v := range values {
			isDefault := i == 0 && kind == selector
			fmt.Fprintf(out, "value {arg=%d}{value=%s}{display=%s}{default=%t}\n", number, v.Word, text(v.Label), isDefault)
		}
	}
	return nil
}

const selector = "selector"

// widget returns the kind of Wireshark's widget for the flag, and further attributes, in extcap's
// grammar.
func (s *setting) widget() (kind, more string) {
	switch s.Value.(type) {
	case *bool:
		return "boolflag", ""
	case *uint32, *uint64:
		return "unsigned", ""
	}
	switch {
	case s.Dialog.Look != nil:
		return selector, "{reload=true}{placeholder=Look again}"
	case s.Dialog.Empty != "":
		return "string", "{placeholder=" + s.Dialog.Empty + "}"
	case s.List && s.Dialog.Choices == nil:
		return "multicheck", ""
	}
	return selector, ""
}

// values returns the values that users can choose: the choices of the dialog, or the words of the
// flag, in a selector after one for the flag's default.
func (s *setting) values(ifname string) (values []frame.Choice, err error) {
	switch kind, _ := s.widget(); {
	case s.Dialog.Look != nil:
		return s.Dialog.Look(ifname)
	case s.Dialog.Choices != nil || s.Dialog.Empty != "":
		return s.Dialog.Choices, nil
	case kind == selector:
		values = []frame.Choice{{Word: "", Label: "the default"}}
	}
	for _, word := range s.Words {
		values = append(values, frame.Choice{Word: word, Label: word})
	}
	return values, nil
}
