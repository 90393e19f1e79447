package extcap

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A setting is a flag of the capture that can be set at an interface in Wireshark. Group and
// tooltip are the flag's own.
type setting struct {
	flag, display string
	kind          string // in Wireshark's words
	values        func(flag *pflag.Flag, ifname string) ([]value, error)
	attributes    string
}

// A value is a value that a setting can have. The first one is the default. The word "" means that
// the flag is omitted.
type value struct{ word, display string }

// settings are in the order in which Wireshark shows them.
var settings = []setting{
	{flag: "rx-capture", display: "Where an XDP program runs", kind: "selector", values: oneOf(
		value{"", "packets that enter it"},
		value{"exit", "packets that leave it, with their verdict"},
		value{"entry,exit", "both"})},
	{flag: "program", display: "Program", kind: "selector", values: runningPrograms, attributes: "{reload=true}{placeholder=Look again}"},
	{flag: "xdp-mode", display: "XDP mode", kind: "selector", values: oneOf(
		value{"", "native, or generic where the driver has none"},
		value{"native", "native"},
		value{"generic", "generic"})},
	{flag: "promiscuous-mode", display: "Promiscuous mode", kind: "boolflag"},
	{flag: "direction", display: "Direction", kind: "selector", values: oneOf(
		value{"", "received packets"},
		value{"out", "sent packets"},
		value{"inout", "both"})},

	{flag: "extcap-capture-filter", display: "Filter", kind: "string", attributes: "{placeholder=every packet}"},
	{flag: "vlan-aware", display: "Filter also after VLAN tags", kind: "boolflag"},
	{flag: "filter-at", display: "The filter sees packets", kind: "selector", values: oneOf(
		value{"", "as they enter the program"},
		value{"exit", "as they leave the program"})},
	{flag: "verdict", display: "Only these verdicts", kind: "multicheck", values: words},

	{flag: "snapshot-length", display: "Bytes of each packet", kind: "string", attributes: "{placeholder=as many as possible}"},
	{flag: "sample", display: "One packet of every", kind: "string", attributes: "{placeholder=1}"},
	{flag: "sample-flows", display: "One flow of every", kind: "unsigned"},
	{flag: "first", display: "First packets of each flow", kind: "unsigned"},
	{flag: "max-rate", display: "Packets per second, at most", kind: "unsigned"},
	{flag: "transport", display: "Transport", kind: "selector", values: defaultOrWords},
	{flag: "buffer-size", display: "Ring of each CPU", kind: "string", attributes: "{placeholder=8M}"},
}

// filterGroup is the group for the filter, because its flag is in no group of the help.
const filterGroup = "Which packets"

func oneOf(values ...value) func(*pflag.Flag, string) ([]value, error) {
	return func(*pflag.Flag, string) ([]value, error) { return values, nil }
}

// words are those that the flag takes.
func words(flag *pflag.Flag, _ string) (values []value, _ error) {
	for _, word := range frame.WordsOf(flag) {
		values = append(values, value{word, word})
	}
	return values, nil
}

// defaultOrWords are the same, after what comes without the flag.
func defaultOrWords(flag *pflag.Flag, ifname string) ([]value, error) {
	values, err := words(flag, ifname)
	return append([]value{{"", "the default"}}, values...), err
}

// runningPrograms are the programs that can be traced at an interface. A program that shares its
// name with another is chosen by its id.
func runningPrograms(_ *pflag.Flag, ifname string) ([]value, error) {
	values := []value{{"", "the one that runs there"}, {"all", "all that a dispatcher calls"}}
	ifi, err := xdp.InterfaceByName(ifname)
	if err != nil {
		return nil, err
	}
	running, err := xdp.Running(ifi)
	if err != nil {
		return nil, err
	}
	for _, p := range running {
		values = append(values, value{strconv.FormatUint(uint64(p.ID), 10), p.String()})
	}
	return values, nil
}

// listSettings prints the settings of an interface, or the values of one setting that Wireshark
// wants to read again.
func (o *Options) listSettings(out io.Writer, flags *pflag.FlagSet, ifname string) error {
	for number, s := range settings {
		if o.reload == "" {
			s.print(out, number, flags.Lookup(s.flag))
		} else if strings.TrimLeft(o.reload, "-") != s.flag {
			continue
		}
		if err := s.printValues(out, number, flags.Lookup(s.flag), ifname); err != nil {
			return err
		}
	}
	return nil
}

func (s *setting) print(out io.Writer, number int, flag *pflag.Flag) {
	_, tooltip := pflag.UnquoteUsage(flag)
	group := filterGroup
	if titles := flag.Annotations[frame.GroupKey]; titles != nil {
		group = titles[0]
	}
	fmt.Fprintf(out, "arg {number=%d}{call=--%s}{display=%s}{tooltip=%s}{type=%s}{group=%s}%s\n",
		number, s.flag, s.display, text(tooltip), s.kind, group, s.attributes)
}

func (s *setting) printValues(out io.Writer, number int, flag *pflag.Flag, ifname string) error {
	if s.values == nil {
		return nil
	}
	values, err := s.values(flag, ifname)
	if err != nil {
		return err
	}
	for i, v := range values {
		isDefault := i == 0 && s.kind == "selector"
		fmt.Fprintf(out, "value {arg=%d}{value=%s}{display=%s}{default=%t}\n", number, v.word, text(v.display), isDefault)
	}
	return nil
}
