package capture

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An extcapSetting is a flag of the capture that can be set at an interface in Wireshark. Group and
// tooltip are the flag's own.
type extcapSetting struct {
	flag, display string
	kind          string // in Wireshark's words
	values        func(ifname string) ([]extcapValue, error)
	attributes    string
}

// An extcapValue is a value that a setting can have. The first one is the default. The word ""
// means that the flag is omitted.
type extcapValue struct{ word, display string }

// extcapSettings are in the order in which Wireshark shows them.
var extcapSettings = []extcapSetting{
	{flag: "rx-capture", display: "Where an XDP program runs", kind: "selector", values: oneOf(
		extcapValue{"", "packets that enter it"},
		extcapValue{"exit", "packets that leave it, with their verdict"},
		extcapValue{"entry,exit", "both"})},
	{flag: "program", display: "Program", kind: "selector", values: runningPrograms, attributes: "{reload=true}{placeholder=Look again}"},
	{flag: "xdp-mode", display: "XDP mode", kind: "selector", values: oneOf(
		extcapValue{"", "native, or generic where the driver has none"},
		extcapValue{"native", "native"},
		extcapValue{"generic", "generic"})},
	{flag: "promiscuous-mode", display: "Promiscuous mode", kind: "boolflag"},
	{flag: "direction", display: "Direction", kind: "selector", values: oneOf(
		extcapValue{"", "received packets"},
		extcapValue{"out", "sent packets"},
		extcapValue{"inout", "both"})},

	{flag: "extcap-capture-filter", display: "Filter", kind: "string", attributes: "{placeholder=every packet}"},
	{flag: "vlan-aware", display: "Filter also after VLAN tags", kind: "boolflag"},
	{flag: "filter-at", display: "The filter sees packets", kind: "selector", values: oneOf(
		extcapValue{"", "as they enter the program"},
		extcapValue{"exit", "as they leave the program"})},
	{flag: "verdict", display: "Only these verdicts", kind: "multicheck", values: verdictValues},

	{flag: "snapshot-length", display: "Bytes of each packet", kind: "unsigned"},
	{flag: "sample", display: "One packet of every", kind: "string", attributes: "{placeholder=1}"},
	{flag: "sample-flows", display: "One flow of every", kind: "unsigned"},
	{flag: "first", display: "First packets of each flow", kind: "unsigned"},
	{flag: "max-rate", display: "Packets per second, at most", kind: "unsigned"},
	{flag: "transport", display: "Transport", kind: "selector", values: transportValues},
	{flag: "buffer-size", display: "Ring of each CPU", kind: "string", attributes: "{placeholder=8M}"},
}

// extcapFilterGroup is the group for the filter, because its flag is in no group of the help.
const extcapFilterGroup = "Which packets"

func oneOf(values ...extcapValue) func(string) ([]extcapValue, error) {
	return func(string) ([]extcapValue, error) { return values, nil }
}

func transportValues(string) ([]extcapValue, error) {
	values := []extcapValue{{"", "the default"}}
	for _, name := range transportNames() {
		values = append(values, extcapValue{name, name})
	}
	return values, nil
}

func verdictValues(string) (values []extcapValue, _ error) {
	for _, name := range xdp.VerdictNames() {
		values = append(values, extcapValue{name, name})
	}
	return values, nil
}

// runningPrograms are the programs that can be traced at an interface. A program that shares its
// name with another is chosen by its id.
func runningPrograms(ifname string) ([]extcapValue, error) {
	values := []extcapValue{{"", "the one that runs there"}, {"all", "all that a dispatcher calls"}}
	ifi, err := xdp.InterfaceByName(ifname)
	if err != nil {
		return nil, err
	}
	running, err := xdp.Running(ifi)
	if err != nil {
		return nil, err
	}
	for _, p := range running {
		values = append(values, extcapValue{strconv.FormatUint(uint64(p.ID), 10), p.String()})
	}
	return values, nil
}

// listSettings prints the settings of an interface, or the values of one setting that Wireshark
// wants to read again.
func (x *extcapOptions) listSettings(out io.Writer, flags *pflag.FlagSet, ifname string) error {
	for number, s := range extcapSettings {
		if x.reload == "" {
			s.print(out, number, flags.Lookup(s.flag))
		} else if strings.TrimLeft(x.reload, "-") != s.flag {
			continue
		}
		if err := s.printValues(out, number, ifname); err != nil {
			return err
		}
	}
	return nil
}

func (s *extcapSetting) print(out io.Writer, number int, flag *pflag.Flag) {
	_, tooltip := pflag.UnquoteUsage(flag)
	group := extcapFilterGroup
	if titles := flag.Annotations[frame.GroupKey]; titles != nil {
		group = titles[0]
	}
	fmt.Fprintf(out, "arg {number=%d}{call=--%s}{display=%s}{tooltip=%s}{type=%s}{group=%s}%s\n",
		number, s.flag, s.display, extcapText(tooltip), s.kind, group, s.attributes)
}

func (s *extcapSetting) printValues(out io.Writer, number int, ifname string) error {
	if s.values == nil {
		return nil
	}
	values, err := s.values(ifname)
	if err != nil {
		return err
	}
	for i, v := range values {
		isDefault := i == 0 && s.kind == "selector"
		fmt.Fprintf(out, "value {arg=%d}{value=%s}{display=%s}{default=%t}\n", number, v.word, extcapText(v.display), isDefault)
	}
	return nil
}
