package capture

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/extcap"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Options are the flags of the capture.
type Options struct {
	outputs.Options
	session capture.Options // flags that are options of the session; sessionOptions adds the others

	interfaces frame.Interfaces
	read       []string // -r: files to read instead of capturing

	filter filters.Options

	snapLen snapshotLength
	buffer  frame.Size // of each CPU's ring
	sample  sampling
	skip    uint64 // with -r
	yes     bool   // cut this machine off if necessary

	promiscuous, notPromiscuous bool // -P, -p

	// Words, which check parses.
	at, mode, directionName, filterAt, transportName, stampName string
	hookNames, verdictNames                                     []string
	vlanRestore                                                 bool

	halfSeen bool // by check: the filter matches both directions, and only one is captured by default

	list, listStamps bool // -D, -J

	json     jsonFlag
	listen   string // address of the metrics; "" = none
	account  bool   // count packets and keep none
	lines    bool   // by check: packets are printed as JSON or CSV
	printing outputs.PrintOptions
	extcap   extcap.Options
	recorder recorderOptions

	companions companionOptions
}

// addFlags adds all flags of the capture.
func (o *Options) addFlags(cmd *cobra.Command) {
	add := func(title string, flags []frame.Flag) {
		frame.AddFlags(cmd, title, flags...)
		o.extcap.Show(title, flags)
	}
	add("Where", o.whereFlags())
	add("Which packets", o.packetFlags())
	add("How much", o.amountFlags())
	add("Counters beside the packets", o.companions.flags())
	add("Output", o.outputFlags())
	add("Long captures", frame.Except(frame.NotForWireshark, o.Rotate.Flags()))
	add("Flight recorder", frame.Except(frame.NotForWireshark, o.recorder.flags()))
	add("Live streams", frame.Except(frame.NotForWireshark, o.Live.Flags()))
	add("Lines", o.printing.Flags())
	add("Privileges", o.Sandbox.Flags())
	frame.AddPeerFlagsToCapture(cmd.Flags())
	add("", o.extcap.Flags())
}

func (o *Options) whereFlags() []frame.Flag {
	return []frame.Flag{
		{Name: "interface", Letter: "i", Value: (*[]string)(&o.interfaces), Complete: o.completeInterface, Settings: frame.NotForWireshark, Rivals: []string{"hook"},
			Help: "capture on this `interface`; repeat it for several. any captures on all that are up, 'veth*' on those whose names match, both also on those that come up later. A packet that passes two of them is captured at each"},
		{Name: "except", Value: (*frame.List)(&o.session.Except), Help: "with -i any or a pattern, omit these `interfaces`: names or patterns, such as lo,docker*"},
		{Name: "direction", Letter: "Q", Value: &o.directionName, Default: "in", Words: []string{"in", "out", "inout"},
			Help: "take what the interface receives (`in`), what it sends (out), or both (inout)",
			Dialog: frame.Dialog{Place: 4, Label: "Direction", Choices: []frame.Choice{
				{Word: "", Label: "received packets"}, {Word: "out", Label: "sent packets"}, {Word: "inout", Label: "both"}}}},
		{Name: "program", Also: []string{"program-names"}, Value: (*frame.List)(&o.session.Targets), Complete: o.Process.CompleteProgram,
			Help:   "trace this program: `NAME`, id or all of several at XDP, NAME or id of one at tc, or the id of one in a devmap or cpumap; NAME/FUNCTION traces a function of it",
			Dialog: frame.Dialog{Place: 1, Label: "Program", Look: extcap.RunningPrograms}},
		{Name: "rx-capture", Value: (*frame.List)(&o.hookNames), Words: []string{"entry", "exit"}, List: true,
			Help: "where an XDP program runs, take packets as they enter it (`entry`, the default), as they leave it (exit), or both (entry,exit); --verdict, --slower-than and --reason choose packets by how they leave it, for entries too",
			Dialog: frame.Dialog{Place: 0, Label: "Where an XDP program runs", Choices: []frame.Choice{
				{Word: "", Label: "packets that enter it"}, {Word: "exit", Label: "packets that leave it, with their verdict"}, {Word: "entry,exit", Label: "both"}}}},
		{Name: "hook", Value: (*frame.Name)(&o.session.HookMap), Settings: frame.NotForWireshark, Rivals: []string{"interface"},
			Help: "instead of -i: capture from the XDP program that calls the hook map pinned at this `path`"},
		{Name: "at", Value: &o.at, Default: "xdp", Words: []string{"xdp", "tc", "auto"},
			Help: "capture received packets at this `hook`: xdp, tc (after XDP; resets no card, and sees what tc redirects), or auto (tc where xdp costs more), which is the default with any, patterns and --pod"},
		{Name: "give-way", Value: &o.session.GiveWay,
			Help: "let others attach an XDP program: when the kernel refuses one because of the capture, go on at tc ingress, or trace that program"},
		frame.ModeFlag(&o.mode),
		{Name: "promiscuous-mode", Letter: "P", Also: []string{"promiscuous"}, Value: &o.promiscuous, Rivals: []string{"no-promiscuous-mode"},
			Help:   "also let in packets for other MAC addresses, as --sink does by default",
			Dialog: frame.Dialog{Place: 3, Label: "Promiscuous mode"}},
		{Name: "no-promiscuous-mode", Letter: "p", Value: &o.notPromiscuous, Rivals: []string{"promiscuous-mode"}, Help: "no promiscuous mode, even with --sink"},
		{Name: "sink", Value: &o.session.Sink, Help: "drop every packet after sampling: for interfaces that receive only copies (SPAN, TAP)"},
		{Name: "yes", Value: &o.yes, Help: "allow --sink even if it cuts off this machine"},
		{Name: "read-file", Letter: "r", Value: &o.read, Help: "read this `file` instead of capturing, like xdpcap read"},
		{Name: "list-interfaces", Letter: "D", Value: &o.list, Help: "list the interfaces, like xdpcap interfaces"},
	}
}

func (o *Options) packetFlags() []frame.Flag {
	flags := []frame.Flag{
		{Name: "verdict", Value: (*frame.List)(&o.verdictNames), Words: xdp.VerdictNames(), List: true,
			Help:   "keep only packets to which the traced program gives these `verdicts`: drop,aborted,tx,redirect,pass, at tc ok,shot,redirect,unspec,stolen, or numbers",
			Dialog: frame.Dialog{Place: 8, Label: "Only these verdicts"}},
		{Name: "slower-than", Value: &o.session.SlowerThan, Help: "keep only packets for which the XDP program ran at least this `time`: 5us"},
		frame.ReasonMapFlag(&o.session.ReasonMap),
		{Name: "drops", Value: &o.session.StackDrops,
			Help: "instead of what the interface receives: take the packets that the network stack throws away later, with the kernel's reason and function; -i any takes those of all interfaces of this network namespace"},
		{Name: "reason", Value: (*frame.List)(&o.session.Reasons), Complete: completeReason,
			Help: "with --drops: keep only packets that are thrown away for these `reasons`: NO_SOCKET,SOCKET_RCVBUFF; with --reason-map: those that the XDP program drops for its own reasons of these names or numbers"},
		o.filter.FragmentsFlag(),
		{Name: "filter-at", Value: &o.filterAt, Default: "entry", Words: []string{"entry", "exit"},
			Help: "filter packets as they enter the XDP program (`entry`), or as they leave it (exit)",
			Dialog: frame.Dialog{Place: 7, Label: "The filter sees packets", Choices: []frame.Choice{
				{Word: "", Label: "as they enter the program"}, {Word: "exit", Label: "as they leave the program"}}}},
	}
	flags = append(flags, o.filter.Flags()...)
	return append(flags, frame.Flag{Name: "reload-filter", Value: &o.session.FilterChanges,
		Help: "let SIGHUP read the file of -F again, and filter by what it says then, without missing a packet; the capture keeps the right to load programs"},
		frame.Flag{Name: "vlan-restore", Value: &o.vlanRestore, Default: "true",
			Help: "put back the VLAN tags that the card takes off packets, where its driver reports them"})
}

func (o *Options) amountFlags() []frame.Flag {
	o.buffer = frame.Size{Unit: 1 << 10}
	o.sample = sampling{oneIn: 1}
	return []frame.Flag{
		{Name: "snapshot-length", Letter: "s", Also: []string{"snaplen"}, Value: &o.snapLen, Words: []string{headersWord},
			Help:   "keep this many `bytes` of each packet; headers keeps its headers without payload, headers+64 also 64 bytes of payload; 0 keeps as many as possible: " + longestPackets(),
			Dialog: frame.Dialog{Place: 9, Label: "Bytes of each packet", Empty: "as many as possible"}},
		{Name: "packet-count", Letter: "c", Value: &o.Count, Help: "end after this many `packets`"},
		{Name: "skip", Value: &o.skip, Help: "with -r, omit this many `packets` first, of those that match"},
		{Name: "duration", Value: &o.Duration, Help: "end after this `time`: 10s or just 10, 5m, 1h"},
		{Name: "sample-flows", Value: &o.session.SampleFlows, Default: "1", Help: "keep all packets of one flow in `N`",
			Dialog: frame.Dialog{Place: 11, Label: "One flow of every"}},
		{Name: "first", Value: &o.session.First, Help: "keep the first `N` packets of each flow",
			Dialog: frame.Dialog{Place: 12, Label: "First packets of each flow"}},
		{Name: "sample", Value: &o.sample,
			Help:   "keep one packet of every `N`, chosen at random in the kernel; drop=1,pass=1000 gives each verdict its own N; auto raises N only as far as it must to lose none",
			Dialog: frame.Dialog{Place: 10, Label: "One packet of every", Empty: "1"}},
		{Name: "max-rate", Value: &o.session.MaxRate, Help: "keep at most this many `packets` per second",
			Dialog: frame.Dialog{Place: 13, Label: "Packets per second, at most"}},
		{Name: "transport", Value: &o.transportName, Words: transportNames(),
			Help:   "take packets from the kernel by the transport of this `name`: " + aboutTransports(),
			Dialog: frame.Dialog{Place: 14, Label: "Transport"}},
		{Name: "buffer-size", Letter: "B", Value: &o.buffer,
			Help:   "size of each CPU's ring buffer, in `KiB` or with a suffix: 8M (default 8M)",
			Dialog: frame.Dialog{Place: 15, Label: "Ring of each CPU", Empty: "8M"}},
	}
}

func (o *Options) outputFlags() []frame.Flag {
	flags := append(o.FileFlags(), []frame.Flag{
		{Name: "time-stamp-type", Letter: "j", Value: &o.stampName, Default: "host",
			Words: []string{capture.HostStamp.String(), capture.HostLowprecStamp.String(), capture.AdapterStamp.String(), capture.AdapterUnsyncedStamp.String()},
			Help:  "give packets time stamps of this `type`: host, host_lowprec (the host's, read once for all packets that come together, which is faster), adapter (the card's, converted to the system's clock) or adapter_unsynced (the card's, unchanged)"},
		{Name: "list-time-stamp-types", Letter: "J", Value: &o.listStamps, Settings: frame.NotForWireshark, Help: "list the types that -j can have on -i"},
		{Name: "packet-buffered", Letter: "U", Value: &o.Unbuffer, Help: "hand over each packet at once; costs CPU time"},
		{Name: "account", Value: &o.account, Settings: frame.NotForWireshark, Help: "only count what becomes of packets: neither print nor write them"},
		{Name: "no-command-line", Value: &o.Unnamed,
			Help: "omit the command line from files and streams, which otherwise have it in their first comment"},
	}...)
	flags = append(flags, o.SFlow.Flags()...)
	return append(flags, frame.ListenFlag(&o.listen),
		frame.Flag{Name: "json", Value: &o.json, Bare: onStderr, Settings: frame.ExposesData | frame.NotForWireshark,
			Help: "print the report as JSON: one object with the closing counts, to stderr or --json=`file`"})
}

// sessionOptions returns the options of the session.
func (o *Options) sessionOptions() capture.Options {
	s := o.session
	s.Interfaces, s.Patterns = o.splitInterfaces()
	s.FilterAtExit = o.filterAt == "exit"
	s.Filter, s.FilterSets, s.VLANAware = o.filter.Text, o.filter.Sets.Known(), o.filter.VLANAware
	if o.filter.Program != nil {
		s.FilterProgram = o.filter.Program.Instructions
	}
	s.Fragments, s.VXLANPort = o.filter.Fragments, o.filter.VXLANPort()
	s.Hash = o.printing.Verbose > 0
	s.SnapLen, s.HeadersOnly, s.Payload = int(o.snapLen.Bytes), o.snapLen.headers, int(o.snapLen.payload)
	s.Count = o.Count
	s.Sample, s.SampleVerdicts, s.Adaptive = o.sample.oneIn, o.sample.verdicts, o.sample.auto
	s.Promiscuous = o.promiscuity()
	s.Buffer, s.Immediate = int(o.buffer.Bytes), o.Unbuffer
	return s
}

func (o *Options) promiscuity() capture.Promiscuity {
	switch {
	case o.promiscuous:
		return capture.PromiscuousOn
	case o.notPromiscuous:
		return capture.PromiscuousOff
	}
	return capture.PromiscuousAuto
}

// transportNames returns the values of --transport.
func transportNames() (names []string) {
	for _, t := range append(capture.Transports(), capture.TransportAuto) {
		names = append(names, t.String())
	}
	return names
}

// aboutTransports lists the values of --transport with a description of each.
func aboutTransports() string {
	var list []string
	for _, t := range capture.Transports() {
		list = append(list, fmt.Sprintf("%v (%s)", t, t.About()))
	}
	auto := capture.TransportAuto
	return fmt.Sprintf("%s, or %v (%s)", strings.Join(list, ", "), auto, auto.About())
}

// longestPackets lists the largest snapshot length of each transport, the default one first.
func longestPackets() (text string) {
	for i, t := range capture.Transports() {
		if i == 0 {
			text = fmt.Sprint(t.MaxSnapLen())
		} else {
			text += fmt.Sprintf(", or %d with --transport %v", t.MaxSnapLen(), t)
		}
	}
	return text
}
