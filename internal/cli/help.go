package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// notes are the notes of all commands.
var notes = []frame.Note{
	{Title: "Sizes and times", Text: "A size is a number that may end in k, M or G: KiB, MiB or GiB, which are 1024 bytes and its powers, as sizes are shown, too. " +
		"Without a suffix it counts bytes; for -B KiB and for -C millions of bytes, as in tcpdump; for -a and -b filesize kB, 1000 bytes, as in dumpcap. " +
		"In what is counted, such as 1.5 Mbit/s or 20 k packets, k, M and G are 1000 and its powers. A time is a number of seconds, " +
		"or has Go's units: 200ms, 10s, 1h30m."},
	{Title: "JSON", Text: "--json prints the report of a command as JSON: the closing counts of a capture, the tables of count and the like, lists, " +
		"the statistics of read --stats. --format json prints or writes packets, a line of JSON for each. docs/json.md lists all keys."},
	{Title: "Signals", Text: "SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGQUIT end a command: it detaches, and prints what it counted. With --filter-set or --reload-filter SIGHUP makes a capture read these files again. A second signal within a " +
		"second changes nothing; a later one kills the command if its ending hangs. SIGUSR1 prints a capture's counts so far; " +
		"SIGUSR2 makes the recorder of --ring write what it has."},
	{Title: "Exit status", Text: "0 after a signal, -c or --duration; 1 after an error, which says in one line what was tried, why it failed, and what to do."},
	{Title: "Settings", Text: "Flags can also be set in the environment, XDPCAP_INTERFACE=eth0, and in ~/.config/xdpcap/config or /etc/xdpcap.conf, " +
		"interface = eth0; `xdpcap config --help` says how. Under a name that ends in tcpdump, direction = inout and format = pcap are set."},
}

// usageNotes are the notes at the end of the capture's help.
func usageNotes() string {
	var b strings.Builder
	for _, n := range append([]frame.Note{frame.PeerFlagsNote(), capture.SentNote}, notes...) {
		b.WriteString("\n\n" + n.Title + ":\n")
		b.WriteString("  " + n.Text)
	}
	return b.String()
}

const filterHelp = `The words after the flags are a filter: an expression of pcap-filter(7), as in tcpdump. It is
compiled into the XDP program, so that packets which do not match cost a few nanoseconds.

  host 192.0.2.1                       from or to this address; also net 192.0.2.0/24, ether host
  src host 192.0.2.1 and dst port 53   one direction
  tcp port 443                         also udp, sctp; portrange 8000-8100
  icmp or icmp6 or arp                 protocols; also ip, ip6, and ip proto 47 by number
  ether proto 0x88cc                   an EtherType
  not port 22                          not binds tightest; and, or bind alike, from left to right
  greater 1000                         lengths; less 100
  tcp[tcpflags] & tcp-syn != 0         bytes of a header; ether[0] & 1 != 0
  vlan 100 and tcp port 443            after a tag: what follows vlan looks there; also mpls
  inner host 10.1.2.3                  in a packet that the packet carries; binds like not
  udp port 4789 and inner (tcp and port 443)
  src host in @blocked                 in the set of --filter-set blocked=FILE, which xdpcap set
                                       changes meanwhile; also net in @nets, port in @ports

Quote brackets, parentheses, & and !, which the shell would interpret. -F reads the expression from
a file, and with --reload-filter SIGHUP reads it again. -d prints the compiled filter, and -d --ebpf
the eBPF that it becomes.

inner holds if the next packet inside matches, or a deeper one: through tags, MPLS, PPPoE, IP in IP,
GRE, VXLAN, Geneve, GTP-U and SRv6. inner inner means two packets inside or deeper. tcpdump does not
know the word.

What differs at XDP from tcpdump on a socket:

VLAN tags are in the packet: "tcp port 443" does not match a tagged packet. With --vlan-aware it
does, after one tag or two.

inbound and outbound are known before the filter runs, from -Q: in, out or inout.

If a packet is in several buffers (jumbo frames), the filter sees the first buffer and the length of
the whole packet.

Where an XDP program runs, the filter looks at a packet as it enters the program, or with
--filter-at exit as it leaves it. --verdict chooses packets by the program's decision.`

func newFilterHelp() *cobra.Command {
	return &cobra.Command{Use: "filter", Short: "How filters are written, and what differs from tcpdump", Long: filterHelp}
}

// newHelp returns cobra's command help, except that an unknown command is an error with a hint.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command, or how filters are written",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && (c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()) {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return frame.UnknownCommand(cmd, args[0])
			}
			about.InitDefaultHelpFlag() // --help does the same
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}
