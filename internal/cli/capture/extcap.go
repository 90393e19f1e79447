package capture

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/version"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// extcapOptions are the flags with which Wireshark calls a program in its extcap directory,
// described in extcap(4). Wireshark asks for the interfaces, for their link types and for their
// settings, and then lets the program capture into a fifo. The settings are the capture's own
// flags. So such a call is a command line of the capture, with other names for -i, -w and the
// filter. The help does not list these flags.
type extcapOptions struct {
	interfaces, dlts, config, capture bool

	ifname  string   // Wireshark's name for the interface
	filters []string // from Wireshark's field for the capture filter, and from the interface's settings
	reload  string   // the setting whose values Wireshark asks for again
	fifo    string

	version    bool
	controlIn  string // for a toolbar, which xdpcap does not have
	controlOut string
}

// extcapPrefix begins our interfaces' names in Wireshark, because plain names such as eth0 are
// dumpcap's.
const extcapPrefix = "xdpcap-"

func (o *extcapOptions) flags(f *pflag.FlagSet) {
	own := pflag.NewFlagSet("extcap", pflag.ContinueOnError)
	own.BoolVar(&o.interfaces, "extcap-interfaces", false, "list the interfaces for Wireshark")
	own.BoolVar(&o.dlts, "extcap-dlts", false, "list an interface's link types for Wireshark")
	own.BoolVar(&o.config, "extcap-config", false, "list what can be set at an interface for Wireshark")
	own.StringVar(&o.reload, "extcap-reload-option", "", "list the values of this `setting` alone")
	own.StringVar(&o.ifname, "extcap-interface", "", "the `interface` that Wireshark asks about")
	own.StringArrayVar(&o.filters, "extcap-capture-filter", nil,
		"a `filter` for this interface: a packet must match it and Wireshark's capture filter")
	own.BoolVar(&o.capture, "capture", false, "capture for Wireshark")
	frame.NameVar(own, &o.fifo, "fifo", "", "write packets to this `fifo`")
	own.StringVar(&o.controlIn, "extcap-control-in", "", "read a toolbar's commands from this `fifo`")
	own.StringVar(&o.controlOut, "extcap-control-out", "", "write a toolbar's state to this `fifo`")
	own.Var((*extcapVersion)(&o.version), "extcap-version", "the `version` of Wireshark that asks")
	own.Lookup("extcap-version").NoOptDefVal = "unknown"
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = true
		f.AddFlag(flag)
	})
}

// An extcapVersion is true once Wireshark has given its version. Nothing depends on the version
// itself.
type extcapVersion bool

func (v *extcapVersion) Set(string) error { *v = true; return nil }
func (v *extcapVersion) String() string   { return "" }
func (v *extcapVersion) Type() string     { return "version" }

// asked says whether Wireshark is the caller.
func (o *extcapOptions) asked() bool {
	return o.interfaces || o.dlts || o.config || o.capture || o.version || o.ifname != "" || len(o.filters) > 0
}

// hears says whether the capture takes settings for a flag. Under Wireshark, settings about files,
// streams and printing do not apply, because Wireshark names the interface, reads one fifo and ends
// the capture. Settings that choose packets do apply.
func (o *extcapOptions) hears(f *pflag.Flag) bool {
	if !o.asked() {
		return true
	}
	switch f.Annotations[frame.GroupKey][0] {
	case "Long captures", "Flight recorder", "Live streams":
		return false
	case "Output":
		return f.Name == "packet-buffered" || f.Name == "time-stamp-type" || f.Name == "no-command-line"
	}
	return f.Name != "interface" && f.Name != "hook"
}

// answer answers one call of Wireshark.
func (o *Options) answer(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	x := &o.extcap
	if !x.interfaces && !x.version || x.ifname != "" {
		if err := x.findInterface(o); err != nil {
			return err
		}
	}
	switch {
	case x.interfaces || x.version && x.ifname == "":
		return x.listInterfaces(out)
	case x.dlts:
		fmt.Fprintln(out, "dlt {number=1}{name=EN10MB}{display=Ethernet}")
		return nil
	case x.config:
		return x.listSettings(out, cmd.Flags(), o.interfaces[0])
	case x.capture:
		return o.captureForWireshark(cmd)
	case len(x.filters) > 0:
		return x.checkFilters(out)
	}
	return errors.New("--extcap-interface: nothing is asked about it: add --extcap-dlts, --extcap-config, --extcap-capture-filter or --capture")
}

// findInterface finds the interface by its name in Wireshark.
func (x *extcapOptions) findInterface(o *Options) error {
	if x.ifname == "" {
		return errors.New("--extcap-interface is missing: xdpcap --extcap-interfaces lists them")
	}
	o.interfaces = []string{strings.TrimPrefix(x.ifname, extcapPrefix)}
	return nil
}

// listInterfaces prints a line about xdpcap, and one about each interface that can be captured.
func (x *extcapOptions) listInterfaces(out io.Writer) error {
	fmt.Fprintf(out, "extcap {version=%s}{help=https://github.com/xdpcap/xdpcap}\n", extcapText(version.String()))
	if !x.interfaces {
		return nil
	}
	ifis, err := xdp.Interfaces()
	if err != nil {
		return err
	}
	for _, ifi := range ifis {
		if reason, remedy := ifi.Obstacle(); reason != "" && remedy == "" || extcapText(ifi.Name) != ifi.Name {
			continue
		}
		at := "XDP"
		if len(ifi.Programs) > 0 {
			at += " program " + ifi.Programs[0].String()
		}
		fmt.Fprintf(out, "interface {value=%s%s}{display=xdpcap: %s (%s)}\n", extcapPrefix, ifi.Name, ifi.Name, extcapText(at))
	}
	return nil
}

// extcapText makes a text fit for Wireshark's grammar, which cannot quote braces.
func extcapText(s string) string {
	return strings.NewReplacer("{", "(", "}", ")").Replace(escape.Text(s))
}

// filter is one expression for all filters together.
func (x *extcapOptions) filter() string {
	given := slices.DeleteFunc(slices.Clone(x.filters), func(f string) bool { return strings.TrimSpace(f) == "" })
	if len(given) == 1 {
		return given[0]
	}
	var all []string
	for _, f := range given {
		all = append(all, "("+f+")")
	}
	return strings.Join(all, " and ")
}

// checkFilters prints what is wrong with the filter, or nothing. Wireshark calls it after each
// typed letter and shows the first line, but only if the exit status is 0.
func (x *extcapOptions) checkFilters(out io.Writer) error {
	_, err := filter.CompileRaw(x.filter(), filter.Options{Netmask: []byte{0, 0, 0, 0}})
	if err != nil {
		fmt.Fprintln(out, frame.WithRemedy(err.Error(), err))
	}
	return nil
}
