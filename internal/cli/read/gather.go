package read

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/message"
)

// gatherPort is the port of a host that is named without one.
const gatherPort = "19000"

const gatherHelp = `gather connects to captures that run with --serve on several hosts, and merges their packets into
one sequence by time: into a file with -w, or printed. It is read --align for streams.

The clocks of all hosts but the first are corrected by packets that a host has in common with it:
first by those of the first seconds, 10 at most, and then again every 10 seconds, because clocks
drift. --shift HOST=TIME, for a host that shares no packets, does it by hand, and then no clock is
corrected by packets.

A host that is gone does not end the others; a message says so. What it has lost is in the file: a
stream carries the number of packets lost before each packet and, when its capture ends, the account
of each interface. A host that sends nothing delays nothing. Packets are printed and written half a
second after they come, because they may come that much later from one host than from another.

HOST is a name or an address, with a port if it is not ` + gatherPort + `; [2001:db8::1]:19000 for IPv6, and
unix:PATH for a socket of this machine. Words after the hosts are a filter, in quotes.`

const gatherExamples = `  xdpcap gather -w both.pcapng host1 host2      two hosts, until Ctrl-C
  xdpcap gather host1 host2:19001 'port 53'     print what matches
  xdpcap gather -w all.pcapng.zst -G 3600 host1 host2 host3 --tls-ca ca.pem
                                                an hour in each file, by TLS`

// NewGather returns the command.
func NewGather(p *frame.Process) *cobra.Command {
	o := Options{gathers: true}
	cmd := o.command(p, splitHosts)
	cmd.Use, cmd.Short, cmd.Long, cmd.Example = "gather [flags] HOST... [filter]", "Merge the live streams of several hosts, by one clock", gatherHelp, gatherExamples
	cmd.Args = refuseFiles
	o.addFlags(cmd)
	return cmd
}

// refuseFiles refuses names of capture files, which are no hosts.
func refuseFiles(_ *cobra.Command, args []string) error {
	var files []string
	for _, arg := range args {
		if outputs.IsCaptureName(arg) && streamURL(arg) == nil {
			files = append(files, message.ShellWord(arg))
		}
	}
	switch len(files) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s is a file, and no host: read it with xdpcap read %[1]s", files[0])
	}
	return fmt.Errorf("%s are files, and no hosts: read them with xdpcap read --align %s", strings.Join(files, ", "), strings.Join(files, " "))
}

// hostOf is the name of a stream's host in messages and interfaces. It has the port only if another
// stream comes from the same host.
func (o *Options) hostOf(u *url.URL) string {
	if u.Scheme == "unix" {
		return filepath.Base(u.Opaque)
	}
	streams := 0 // of this host
	for _, name := range o.files {
		if streamURL(name).Hostname() == u.Hostname() {
			streams++
		}
	}
	if streams > 1 {
		return u.Host
	}
	return u.Hostname()
}

// splitHosts divides arguments into the URLs of streams and the words of a filter, which begin with
// the first argument that has a space or is a keyword of filters. dash is the number of arguments
// before a --, or -1.
func splitHosts(args []string, dash int) (urls, words []string) {
	if dash < 0 {
		for dash = 0; dash < len(args) && !strings.ContainsAny(args[dash], " \t") && !filter.IsKeyword(args[dash]); {
			dash++
		}
	}
	for _, host := range args[:dash] {
		if streamURL(host) == nil {
			if _, _, err := net.SplitHostPort(host); err != nil {
				host = net.JoinHostPort(strings.Trim(host, "[]"), gatherPort)
			}
			host = "tcp://" + host
		}
		urls = append(urls, host)
	}
	return urls, args[dash:]
}
