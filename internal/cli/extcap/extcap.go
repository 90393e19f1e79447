// Package extcap answers Wireshark, which calls xdpcap as a program in its extcap directory, as
// extcap(4) describes. Wireshark asks for the interfaces, for their link types and for their
// settings, and then lets the program capture into a fifo. The settings are the capture's own
// flags. So such a call is a command line of the capture, with other names for -i, -w and the
// filter.
package extcap

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Options are the flags by which Wireshark calls xdpcap. The help does not list them.
type Options struct {
	Captures bool   // this call captures
	Fifo     string // where the packets go, if it captures

	interfaces, dlts, config bool

	ifname  string   // Wireshark's name for the interface
	filters []string // from Wireshark's field for the capture filter, and from the interface's settings
	reload  string   // the setting whose values Wireshark asks for again

	settings []setting // in the order in which Wireshark shows them

	version               string // of Wireshark; it has no effect
	controlIn, controlOut string // for a toolbar, which xdpcap does not have; without effect
}

// prefix begins the names of interfaces in Wireshark, where eth0 without it is dumpcap's.
const prefix = "xdpcap-"

// Flags are the flags.
func (o *Options) Flags() []frame.Flag {
	flags := []frame.Flag{
		{Name: "extcap-interfaces", Value: &o.interfaces, Help: "list the interfaces for Wireshark"},
		{Name: "extcap-dlts", Value: &o.dlts, Help: "list an interface's link types for Wireshark"},
		{Name: "extcap-config", Value: &o.config, Help: "list what can be set at an interface for Wireshark"},
		{Name: "extcap-reload-option", Value: &o.reload, Help: "list the values of this `setting` alone"},
		{Name: "extcap-interface", Value: &o.ifname, Help: "the `interface` that Wireshark asks about"},
		{Name: "extcap-capture-filter", Value: &o.filters, Help: "a `filter` for this interface: a packet must match it and Wireshark's capture filter",
			Dialog: frame.Dialog{Place: 5, Group: "Which packets", Label: "Filter", Empty: "every packet"}},
		{Name: "capture", Value: &o.Captures, Help: "capture for Wireshark"},
		{Name: "fifo", Value: (*frame.Name)(&o.Fifo), Help: "write packets to this `fifo`"},
		{Name: "extcap-control-in", Value: &o.controlIn, Help: "read a toolbar's commands from this `fifo`"},
		{Name: "extcap-control-out", Value: &o.controlOut, Help: "write a toolbar's state to this `fifo`"},
		{Name: "extcap-version", Value: &o.version, Bare: "unknown", Help: "the `version` of Wireshark that asks"},
	}
	for i := range flags {
		flags[i].Hidden = true
	}
	return flags
}

// Asked reports whether Wireshark is the caller.
func (o *Options) Asked() bool {
	return o.interfaces || o.dlts || o.config || o.Captures || o.version != "" || o.ifname != "" || len(o.filters) > 0
}

// PassesOver returns the exceptions whose flags are not set from files and the environment in this
// call. If Wireshark is the caller, settings about files, streams and printing do not apply,
// because Wireshark names the interface, reads one fifo and ends the capture. Settings that choose
// packets do apply.
func (o *Options) PassesOver() frame.Settings {
	if o.Asked() {
		return frame.NotForWireshark
	}
	return 0
}

// Answer answers one call of Wireshark on out. flags are the capture's. capture runs a capture of
// an interface with Wireshark's filter; "" = Wireshark has none.
func (o *Options) Answer(out io.Writer, flags *pflag.FlagSet, capture func(ifname, filter string) error) error {
	if o.ifname == "" && (o.interfaces || o.version != "") {
		return o.listInterfaces(out)
	}
	if o.ifname == "" {
		return errors.New("--extcap-interface is missing: xdpcap --extcap-interfaces lists them")
	}
	ifname := strings.TrimPrefix(o.ifname, prefix)
	switch {
	case o.interfaces:
		return o.listInterfaces(out)
	case o.dlts:
		fmt.Fprintln(out, "dlt {number=1}{name=EN10MB}{display=Ethernet}")
		return nil
	case o.config:
		return o.listSettings(out, flags, ifname)
	case o.Captures:
		return o.capture(func() error { return capture(ifname, o.filter()) }, ifname)
	case len(o.filters) > 0:
		return o.checkFilters(out)
	}
	return errors.New("--extcap-interface: nothing is asked about it: add --extcap-dlts, --extcap-config, --extcap-capture-filter or --capture")
}

// listInterfaces prints a line about xdpcap, and one about each interface that can be captured.
func (o *Options) listInterfaces(out io.Writer) error {
	fmt.Fprintf(out, "extcap {version=%s}{help=https://github.com/xdpcap/xdpcap}\n", text(frame.Version()))
	if !o.interfaces {
		return nil
	}
	ifis, err := xdp.Interfaces()
	if err != nil {
		return err
	}
	for _, ifi := range ifis {
		if reason, remedy := ifi.Obstacle(); reason != "" && remedy == "" || text(ifi.Name) != ifi.Name {
			continue
		}
		at := "XDP"
		if runs := ifi.Runs(); runs != "" {
			at += " program " + runs
		}
		fmt.Fprintf(out, "interface {value=%s%s}{display=xdpcap: %s (%s)}\n", prefix, ifi.Name, ifi.Name, text(at))
	}
	return nil
}

// text replaces braces, which Wireshark's grammar cannot quote.
func text(s string) string {
	return strings.NewReplacer("{", "(", "}", ")").Replace(message.Escape(s))
}

// filter joins all filters to one expression.
func (o *Options) filter() string {
	given := slices.DeleteFunc(slices.Clone(o.filters), func(f string) bool { return strings.TrimSpace(f) == "" })
	if len(given) == 1 {
		return given[0]
	}
	var all []string
	for _, f := range given {
		all = append(all, "("+f+")")
	}
	return strings.Join(all, " and ")
}

// checkFilters prints the mistake in the filter, if there is one. Wireshark calls it after each
// typed letter and shows the first line, but only if the exit status is 0.
func (o *Options) checkFilters(out io.Writer) error {
	_, err := filter.CompileRaw(o.filter(), filter.Options{Netmask: []byte{0, 0, 0, 0}})
	if err != nil && !errors.Is(err, filter.ErrNoSet) { // a setting may give the set
		fmt.Fprintln(out, frame.WithRemedy(err.Error(), err))
	}
	return nil
}
