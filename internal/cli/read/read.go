// Package read is the command read: it prints, filters and merges capture files.
package read

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/message"
)

// Options are the flags of read.
type Options struct {
	outputs.Options
	filter   filters.Options
	json     bool
	stats    bool
	follow   bool
	page     pageFile
	chosen   string // for the page: the flags and the filter that choose packets, as given
	skip     uint64 // packets
	choice   choice
	clocks   clocks
	printing outputs.PrintOptions
	replay   *replayOptions // nil for read and gather

	files   []string // names, or URLs of streams
	gathers bool     // the command is gather: the files are streams of several hosts
	lines   bool     // packets go to standard output as lines of --format, JSON or CSV
}

const readHelp = `read prints the packets of capture files as a capture prints them: with verdicts and, with -v, with
receive queues, ids and losses. It takes files of xdpcap and of other programs: pcapng and pcap,
also compressed by gzip or zstd, whatever their names; - is standard input. Several files become
one sequence by time; packets that are out of order within a file stay so. A directory stands for
the capture files in it. With --from or --to, files without packets of that time are not read.

Words after the files are a filter. The first argument is always a file. Each further one is a file
if a file of this name exists, or if it has the name of a capture file. A -- between files and
filter removes any doubt. If a file is called like a word of filters, write ./tcp.

-w writes the packets that match to a file and keeps all that is known of them: options and blocks
of pcapng are copied unchanged, also those that xdpcap does not know. --format json, or a name that
ends in .json or .jsonl, makes the same lines as in a capture, and can also print them. A file that
was cut off, as when a capture was killed, is read up to its last whole block; read then says so and
exits with status 1.

--anonymize maps all IP and MAC addresses by the key in a file, 32 bytes or 64 hexadecimal digits
that only its owner may read: (umask 77; head -c 32 /dev/urandom > key). Addresses with a common
prefix keep one, checksums stay as right as they were, and the same key maps alike in every file.
Headers that are understood stay, also in tunnels and ICMP errors. Everything after the last of them
is cut, and so are comments, filters and blocks of other kinds.

--follow prints each packet once, with every place where this host saw it in one second: how long
after the first, and with which verdict. So a capture of two interfaces (-i eth0 -i eth1 -Q inout)
shows how long the host takes to forward a packet, and which it does not forward. Entry and exit of
a program are joined by the packet's id, other places by what stays the same on the way: addresses,
ports, IPv4's id, TCP's sequence numbers and the data. What fits several packets is called ambiguous
and not joined. A packet whose addresses NAT or a tunnel changes is seen as two.`

const readExamples = `  xdpcap read out.pcapng                        print it
  xdpcap read eth0.pcapng eth1.pcap.zst 'tcp port 443 and not host 192.0.2.1'
                                                two files by time, what matches
  xdpcap read --from 14:05 --to 14:06 out.pcapng
                                                one minute of it
  xdpcap read --from 10:15 --to 10:20 /var/captures 'host 192.0.2.1'
                                                the same in a week of files
  xdpcap read --lost -i 'eth*' out.pcapng       what this host threw away, and why
  xdpcap read --align -w both.pcapng a.pcapng b.pcapng
                                                two hosts' files, by one clock
  xdpcap read -c 100 -w first.pcapng out.pcapng the first 100 packets, with all that is known
  xdpcap read --anonymize key -w ticket.pcapng out.pcapng
                                                without addresses and payloads, to be shared
  xdpcap read --stats out.pcapng                the account, gaps, verdicts, flows and rates
  xdpcap read --report out.html out.pcapng      a page about it, to hand on
  xdpcap read --format csv out.pcapng           a row for each packet, for SQL and spreadsheets
  xdpcap read --json out.pcapng | jq -r 'select(.verdict == "drop") | .line'
  xdpcap read --follow out.pcapng 'port 53'     the way of each packet through this host
  xdpcap read --format json tcp://127.0.0.1:19000 | jq .community_id
                                                a live stream as lines for other programs
  ssh host sudo xdpcap -i eth0 -w - | xdpcap read -`

// readBrief is what -h prints, with the names of the formats.
const readBrief = `Print, filter and merge capture files: pcapng and pcap, also .gz and .zst.

  xdpcap read out.pcapng               print it, a line for each packet
  xdpcap read out.pcapng 'port 53'     what matches
  xdpcap read --from 10:15 --to 10:20 captures/ five minutes of many files
  xdpcap read -v -X out.pcapng         more of each packet, and its bytes
  xdpcap read -c 100 -w first.pcapng out.pcapng
  xdpcap read -w both.pcapng eth0.pcapng eth1.pcapng
  xdpcap read --stats out.pcapng       how much, of what, and what is missing
  xdpcap read --report out.html out.pcapng  the same as a page, to hand on
  xdpcap read --follow out.pcapng      the way of each packet through the host
  xdpcap read --format json out.pcapng packets as lines of JSON
  ssh host sudo xdpcap -i eth0 -w - | xdpcap read -

  -c N                                 end after N packets
  -F FILE, --vlan-aware                the filter, and what it sees behind tags
  -i, --verdict, --reason, --lost      by interface, verdict, cause of loss
  -w FILE.%s[.gz|.zst]  write a file in the format of its name
  -C 100M, -G 3600, -b, -a             several files
  --serve :19000                       to whoever connects
  -v -e -x -X -A -t -#                 how lines look, as in tcpdump

xdpcap read --help says all of it.
`

// New returns the command.
func New(p *frame.Process) *cobra.Command {
	var o Options
	cmd := o.command(p, splitArguments)
	cmd.Use, cmd.Short, cmd.Long, cmd.Example = "read [flags] FILE... [filter]", "Print, filter and merge capture files", readHelp, readExamples
	cmd.Annotations = map[string]string{frame.BriefKey: fmt.Sprintf(readBrief, outputs.FormatChoice())}
	o.addFlags(cmd)
	return cmd
}

// command returns a command that reads files, without its texts and flags. split divides its
// arguments into files and the words of a filter, like splitArguments.
func (o *Options) command(p *frame.Process, split func(args []string, dash int) (files, words []string)) *cobra.Command {
	o.Process = p
	return &cobra.Command{
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files, o.filter.Words = split(args, cmd.ArgsLenAtDash())
			return o.run(cmd)
		},
	}
}

// addFlags adds all flags. Settings for the flags of a capture about counting, printing and writing
// do not apply to read: there --stats is another flag, and --print refuses it.
func (o *Options) addFlags(cmd *cobra.Command) {
	o.filter.Netmask = net.IPMask{0, 0, 0, 0} // tcpdump's for files
	if o.gathers {
		shiftFlag := o.clocks.flags()[0]
		frame.AddFlags(cmd, "Which packets", append(o.filter.Flags(), o.countFlag(), shiftFlag)...)
		frame.AddFlags(cmd, "Output", frame.Except(frame.CommandLineOnly, append(o.FileFlags(), o.SFlow.AgentFlag()))...)
		o.addOutputFlags(cmd)
		return
	}
	frame.AddFlags(cmd, "Which packets", append(o.choiceFlags(), o.clocks.flags()...)...)
	frame.AddFlags(cmd, "Output", frame.Except(frame.CommandLineOnly, append(o.printedFileFlags(), []frame.Flag{
		{Name: "json", Value: &o.json, Help: "with --stats, print the report as JSON: one object; with --follow, an object for each packet; without, as --format json, with each packet's printed line"},
		{Name: "stats", Value: &o.stats, Help: "print statistics instead of packets: interfaces, verdicts, flows, and what the files say is missing"},
		{Name: "report", Value: (*frame.Name)(&o.page.path), Help: "write a page of HTML about the packets to this `file`, instead of printing them: what --stats has, with charts, time, protocols, sizes, run times and how they were captured; with --follow also the delays"},
		{Name: "follow", Value: &o.follow, Help: "print each packet once, with the places where it was seen and the times between"},
		o.SFlow.AgentFlag(),
	}...))...)
	o.addOutputFlags(cmd)
	frame.AddPeerFlagsToRead(cmd.Flags())
}

// printedFileFlags are the flags about files of a command that prints packets in text formats.
func (o *Options) printedFileFlags() []frame.Flag {
	flags := o.FileFlags()
	flags[slices.IndexFunc(flags, func(f frame.Flag) bool { return f.Name == "format" })].Help = outputs.PrintedFormatUsage()
	return flags
}

// addOutputFlags adds the output flags that read and gather share.
func (o *Options) addOutputFlags(cmd *cobra.Command) {
	frame.AddFlags(cmd, "Long captures", frame.Except(frame.CommandLineOnly, o.Rotate.Flags())...)
	live := o.Live.Flags()
	live[0].Settings |= frame.CommandLineOnly // of --serve
	frame.AddFlags(cmd, "Live streams", live...)
	frame.AddFlags(cmd, "Lines", o.printing.Flags()...)
	frame.AddFlags(cmd, "Privileges", o.Sandbox.Flags()...)
}

// choiceFlags are the flags that choose packets of the files.
func (o *Options) choiceFlags() []frame.Flag {
	return slices.Concat(o.filter.Flags(), []frame.Flag{
		o.filter.FragmentsFlag(),
		{Name: "netmask", Value: &o.filter.Netmask,
			Help: "the `netmask` of the network that the packets come from, for the filter ip broadcast: 255.255.255.0; without it, what a pcapng file says of each interface"},
		o.countFlag(),
		{Name: "skip", Value: &o.skip, Settings: frame.CommandLineOnly, Help: "omit this many `packets` first, of those that match"},
	}, o.choice.flags())
}

func (o *Options) countFlag() frame.Flag {
	return frame.Flag{Name: "packet-count", Letter: "c", Value: &o.Count, Settings: frame.CommandLineOnly, Help: "end after this many `packets`"}
}

// check finds mistakes in the flags before a file is opened, and sets the fields that follow from
// them: the targets of -w, o.lines, o.Series, and o.Format and o.json where these mean the same.
// given reports whether a flag was set.
func (o *Options) check(given func(flag string) bool) (err error) {
	switch {
	case len(o.files) == 0 && o.gathers:
		return errors.New("which hosts? xdpcap gather host1 host2, where xdpcap runs with --serve")
	case len(o.files) == 0 && o.replay == nil:
		return fmt.Errorf("which file? xdpcap read %s; - is standard input", message.ShellWord(newestCapture()))
	case o.Count == 0 && given("packet-count"):
		return errors.New("-c 0: must be at least 1")
	case o.Print && o.stats:
		return errors.New("--stats is printed instead of packets: omit --print")
	case o.Anonymizes() && (o.stats || o.follow || o.page.path != ""):
		return errors.New("--anonymize is for packets, and --stats, --report and --follow are about those in the file: write them with -w, and read that")
	case o.follow && o.page.path == "":
		if err := o.checkFollow(); err != nil {
			return err
		}
	}
	if o.replay != nil {
		if err := o.replay.check(o); err != nil {
			return err
		}
	}
	if err := o.choice.check(); err != nil {
		return err
	}
	if err := o.ReadTargets(given); err != nil {
		return err
	}
	if o.json && !o.stats && len(o.Writes) == 0 && o.Format == file.JSON.String() {
		o.Format = "" // --json is the same, with more keys
	}
	if o.stats && len(o.Writes) == 0 && o.Format == file.JSON.String() {
		o.json, o.Format = true, "" // the report has one format
	}
	_, isText := o.Text()
	o.lines = isText && (len(o.Writes) == 0 || o.WritesStdout())
	if err := o.checkStdout(); err != nil {
		return err
	}
	switch {
	case outputs.IsCaptureName(o.page.path):
		return fmt.Errorf("--report %s: this is the name of a capture file, which the page would replace: name the page first, as in --report out.html %[1]s", o.page.path)
	case given("sflow-agent") && !o.WritesTo(outputs.SFlowScheme):
		return errors.New("--sflow-agent: nothing is sent to an sFlow collector: add -w sflow://HOST")
	case given("sflow-agent"):
		if err := o.SFlow.ReadAgent(); err != nil {
			return err
		}
	}
	if o.Series, err = o.Rotation(given); err != nil || o.Series == nil {
		return err
	}
	if usesTimes := o.Series.Period != 0 || o.Rotate.NamesTimes(); usesTimes {
		// Files begin and end, and are named, by the time stamps of packets. With -G the first
		// period begins with the first packet.
		o.Series.Stamped, o.Series.FromFirst = true, o.Rotate.Every > 0
	}
	return nil
}

// checkStdout refuses flags of which two or more need standard output.
func (o *Options) checkStdout() error {
	prints := o.Print || o.json || o.stats || frame.IsStdout(o.page.path)
	switch {
	case o.WritesStdout() && prints:
		return errors.New("-w - and the printed text both need standard output: write to a file, or do not print")
	case o.stats && o.Format != "" && len(o.Writes) == 0:
		return errors.New("--format is for packets, and --stats prints none: for its report as JSON say --stats --json")
	case o.lines && prints:
		return fmt.Errorf("--format %s and the printed text both need standard output: write to a file, or do not print", cmp.Or(o.Format, file.JSON.String()))
	case frame.IsStdout(o.page.path) && (o.Print || o.json || o.stats):
		return errors.New("--report - and the printed text both need standard output: write the page to a file, or do not print")
	case o.Rotate.PrintFiles && (o.json || o.stats):
		return errors.New("--print-files and the printed text both need standard output: choose one")
	}
	return nil
}

// run runs the command, up to the opening of its files.
func (o *Options) run(cmd *cobra.Command) error {
	if err := o.filter.Read(o.Process.UntilSignal()); err != nil {
		return err
	}
	o.filter.Warn(cmd.ErrOrStderr())
	if o.filter.Dump > 0 {
		return o.filter.Print(cmd.OutOrStdout(), 0, false)
	}
	if err := o.check(cmd.Flags().Changed); err != nil {
		return err
	}
	if err := o.ReadKey(); err != nil {
		return err
	}
	o.filter.OneNetmask = cmd.Flags().Changed("netmask")
	match, err := o.filter.Matchers()
	if err != nil {
		return explainWords(err, o.filter.Words)
	}
	if o.files, err = findFiles(o.files); err != nil {
		return err
	}
	ctx, err := o.Process.Begin(frame.Guard{})
	if err != nil {
		return err
	}
	o.chosen = chosenBy(cmd.Flags(), o.filter.String())
	if err := o.Sandbox.Plan(o.LaterFile(), append(o.MadeFiles(), o.page.path)...); err != nil {
		return err
	}
	if o.replay != nil {
		defer o.replay.close()
		if err := o.replay.open(o); err != nil {
			return err
		}
		if len(o.files) == 0 {
			return o.replay.printMeasured(ctx, o)
		}
	}
	r := &readRun{o: o, match: match, unfiltered: make(map[uint16]uint64), inputs: &readInputs{ctx: ctx, tls: &o.Live.TLS}}
	if o.filter.Fragments {
		r.fragments = new(filters.Fragments)
	}
	return r.run(ctx)
}
