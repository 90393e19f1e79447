// Package capture is the command that captures, which has no name: its flags, its run, its counts.
package capture

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/inspect"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

const captureHelp = `xdpcap captures packets at the XDP hook: as they come from the network driver, before the
kernel's stack, its firewall and tcpdump see them. It copies packets and lets them pass. A host's
own XDP programs stay attached and unchanged.

Where no XDP program runs, xdpcap attaches one of its own. Some drivers then reset the queues of the
card, or take the link down for a second. --at tc attaches nothing in the driver, and captures after
XDP; nor does --xdp-mode generic, which is slower.`

// captureBrief is the output of -h. %s is the names of the formats.
const captureBrief = `xdpcap captures packets at the XDP hook: as they come from the network driver,
before the kernel's stack, its firewall and tcpdump see them.

  xdpcap interfaces                    list the interfaces
  xdpcap probe -i eth0                 what is possible on this one
  xdpcap -i any 'tcp port 443'         print what matches, on all interfaces
  xdpcap -i eth0 -w out.pcapng         into a file for Wireshark; Ctrl-C ends it
  xdpcap -i eth0 --verdict drop        what the XDP program there drops
  xdpcap top -i eth0                   who sends what, and what is lost, live
  xdpcap read out.pcapng               print a file

  -Q in|out|inout                      received packets (default), sent, or both
  -c N, --duration 10s                 end after N packets, or a time
  -s 128, --sample 1000                the first 128 bytes; one packet of 1000
  -w FILE.%s[.gz|.zst]  write a file in the format of its name
  -v -e -x -X -A -t                    how lines look, as in tcpdump

Some drivers reset the card's queues when an XDP program is attached:
--at tc attaches nothing in the driver.

Commands:
  config count drops gather interfaces latency man monitor probe read replay set
  stats top
xdpcap --help has all flags, xdpcap count -h those of count. Also: help filter.
`

const captureExamples = `  xdpcap -i eth0                                print packets, one line each
  xdpcap -i eth0 -w out.pcapng                  into a file for Wireshark; Ctrl-C ends it
  xdpcap -i eth0 -w - | tcpdump -nr -           into another program
  xdpcap -i eth0 'tcp port 443 and not host 192.0.2.1'
                                                only what matches, chosen in the kernel
  xdpcap -i any --except lo 'port 53'           on every interface, also those that come later
  xdpcap -i eth0 --verdict drop                 what the XDP program that runs there drops
  xdpcap -i eth0 --rx-capture entry --verdict drop
                                                the same, as it came in
  xdpcap -i eth0 --slower-than 5us -v           packets for which that program ran so long
  xdpcap -i eth0 --drops -w lost.pcapng         what the stack throws away, and why
  xdpcap -i eth0 -s 128 -c 1000 -w heads.pcapng
                                                the first 128 bytes of 1000 packets
  xdpcap -i eth0 -s headers -w headers.pcapng   no payload, which never leaves the kernel
  xdpcap --pod default/web-1                    what a Kubernetes pod of this host receives
  xdpcap -i eth0 --account --listen :9432       how many packets there are, for Prometheus
  xdpcap -i eth0 -w out.pcapng --count --flows 10
                                                also count all of them, by protocol and flow
  xdpcap -i eth0 --sample 1000 --duration 1m -w sample.pcapng
                                                one packet of 1000, for a minute
  xdpcap -i eth0 --sample drop=1,pass=1000 -w drops.pcapng
                                                all that is dropped, and one of 1000 that pass
  xdpcap -i eth0 --sample auto -w all.pcapng    as many packets as can be kept without a loss
  xdpcap -i eth0 -G 3600 -W 24 -w %F_%H.pcapng.zst
                                                a day, a compressed file for each hour
  xdpcap -i eth0 -C 100 -W 50 --min-free 10G -w ring.pcapng
                                                the last 50 files of 100 MB, fewer on a full disk
  xdpcap -i eth0 --anonymize key -w ticket.pcapng
                                                without addresses and payloads, to be shared
  xdpcap -i eth0 --ring 256M --trigger aborted --post 5s -w crash.pcapng
                                                what came before and after an exception`

// New returns the command. When it runs, o has the values of its flags.
func New(p *frame.Process, o *Options) *cobra.Command {
	o.Process = p
	cmd := &cobra.Command{
		Use:         "xdpcap [flags] [filter]",
		Short:       "Capture packets at the XDP hook",
		Long:        captureHelp,
		Example:     captureExamples,
		Annotations: map[string]string{frame.BriefKey: fmt.Sprintf(captureBrief, outputs.FormatChoice())},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.extcap.Asked() {
				return o.answerWireshark(cmd)
			}
			if o.list && o.json.given && o.json.file != onStderr {
				return errors.New("-D prints to standard output: its --json takes no file")
			}
			if o.list {
				return inspect.PrintInterfaces(p, cmd.OutOrStdout(), o.json.given)
			}
			if o.listStamps {
				return printStampTypes(cmd.OutOrStdout(), o.interfaces)
			}
			if o.read != nil {
				return readInstead(cmd, o.read, args)
			}
			o.filter.Words = args
			if o.filter.Dump == 0 {
				return Run(o, cmd, nil)
			}
			if err := o.readFilter(cmd); err != nil {
				return err
			}
			return o.filter.PrintFor(cmd.OutOrStdout(), o.snapLen.Bytes, o.directionName)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// Reads reports whether -r is given, with which the command runs read instead of a capture.
func (o *Options) Reads() bool { return o.read != nil }

// PassesOver returns the exceptions whose flags this command line sets in no file, and not in the
// environment, in addition to those of all commands.
func (o *Options) PassesOver() frame.Settings { return o.extcap.PassesOver() }

// answerWireshark answers one call of Wireshark. A filter in Wireshark has precedence over one in
// files and in the environment.
func (o *Options) answerWireshark(cmd *cobra.Command) error {
	return o.extcap.Answer(cmd.OutOrStdout(), cmd.Flags(), func(ifname, filter string) error {
		o.interfaces, o.filter.Words = []string{ifname}, nil
		if filter != "" {
			o.filter.Words, o.filter.File, o.filter.ProgramFile = []string{filter}, "", ""
		}
		return Run(o, cmd, nil)
	})
}

// readFilter reads the filter from arguments and files, and refuses arguments that are no filter.
func (o *Options) readFilter(root *cobra.Command) error {
	if err := o.filter.Read(o.Process.UntilSignal()); err != nil {
		return err
	}
	o.filter.Warn(root.ErrOrStderr())
	return frame.CheckCommand(root, o.filter.Words, o.filter.Text)
}

// SentNote is about the capture of sent packets.
var SentNote = frame.Note{Title: "What is sent", Text: "-Q out and -Q inout see a packet before the kernel or the card cuts it into segments (GSO): it may " +
	"have 64 KiB, and -v prints the size of its segments. A checksum that the card will compute is not there yet, and no transmit queue " +
	"is chosen. What an XDP program sends does not pass there: capture it with --rx-capture exit --verdict tx,redirect."}
