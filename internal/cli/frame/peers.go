package frame

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A peerFlag is a flag of tcpdump, dumpcap or xdpdump (the peers) for which a command has no
// function. If the peers give a letter different meanings, it has tcpdump's. A flag without effect
// here is accepted. Any other is refused, with a hint on what to do instead. So a command line that
// was written for a peer either works, or prints in one line how to change it.
type peerFlag struct {
	letter, name string   // either may be ""
	value        string   // name of its value in the manual; "" = it has none
	takes        []string // accepted values; empty = any value, nil = the flag has no value

	accepted string // why it has no effect; "" = the flag is refused
	instead  string // hint if the flag, or a value that is not in takes, is refused
	reading  string // hint of the command read, which then refuses the flag; "" = as in the capture
}

// peerFlags are the peers' flags in the capture and in read. The parser, the help and the manual
// use this list.
var peerFlags = []peerFlag{
	{letter: "l", accepted: "lines are printed 50 ms after their packets at the latest, and with -U at once"},
	{letter: "N", accepted: "addresses are always numbers"},
	{letter: "f", accepted: "addresses are always numbers; as in dumpcap, a filter may follow it"},
	{letter: "S", name: "absolute-tcp-sequence-numbers", accepted: "sequence numbers are always absolute"},
	{letter: "u", accepted: "NFS is not decoded"},
	{letter: "H", accepted: "there are no 802.11 frames at XDP"},
	{name: "immediate-mode", accepted: "packets are handed over after 50 ms at the latest, and with -U at once"},
	{letter: "y", name: "linktype", value: "linktype", takes: []string{"EN10MB"}, accepted: "XDP sees Ethernet frames only",
		instead: "XDP sees Ethernet frames only: say -y EN10MB", reading: "each file says its link type: omit it"},
	{name: "load-xdp-program", accepted: "xdpcap attaches a program of its own where none runs"},

	{letter: "V", value: "file", instead: "say xdpcap read $(cat list.txt)"},
	{letter: "E", value: "secret", instead: "xdpcap does not decrypt: write a file with -w, and read it with tcpdump -E or Wireshark"},
	{letter: "M", value: "secret", instead: "xdpcap does not check TCP-MD5 digests: write a file with -w, and read it with tcpdump -M"},
	{letter: "m", value: "module", instead: "xdpcap does not decode SNMP: write a file with -w, and read it with tcpdump -m"},
	{letter: "T", value: "type", instead: "xdpcap decodes by port: write a file with -w, and read it with tcpdump -T"},
	{letter: "I", name: "monitor-mode", instead: "XDP sees Ethernet frames only: capture 802.11 frames with tcpdump -I", reading: fromFiles},
	{letter: "k", value: "channel", instead: "XDP sees Ethernet frames only: set a Wi-Fi channel with iw", reading: fromFiles},
	{letter: "L", name: "list-data-link-types", instead: "there is one, EN10MB: XDP sees Ethernet frames only", reading: "each file says its link type: omit it"},
	{letter: "g", instead: "files are for their owner alone: let a group read one with chmod g+r when xdpcap has ended"},
	{name: "print-sampling", value: "n", instead: "every packet is printed: take every tenth line by | awk 'NR%10 == 1'"},
	{name: "use-pcap", instead: "say --format pcap"},
	{name: "load-xdp-mode", value: "mode", instead: "say --xdp-mode native or --xdp-mode generic"},
	{name: "perf-wakeup", value: "events", instead: "packets come in batches of at most 50 ms: omit it, or say -U"},
	{name: "ifname", value: "name", instead: "xdpcap does not read pipes: omit it"},
	{name: "ifdescr", value: "text", instead: "xdpcap does not read pipes: omit it"},
	{name: "capture-comment", value: "text", instead: "the file has the command line as its comment, unless --no-command-line: omit it"},
	{name: "temp-dir", value: "directory", instead: "xdpcap makes no temporary files: omit it"},
	{name: "log-level", value: "level", instead: "xdpcap has no log: omit it, or say -v"},
	{name: "log-fatal", value: "level", instead: "xdpcap has no log: omit it"},
	{name: "log-domains", value: "list", instead: "xdpcap has no log: omit it"},
	{name: "log-debug", value: "list", instead: "xdpcap has no log: omit it, or say -v"},
	{name: "log-noisy", value: "list", instead: "xdpcap has no log: omit it, or say -v"},
	{name: "log-file", value: "path", instead: "xdpcap has no log: omit it, or say 2>xdpcap.log"},
}

// peerFlagsOfRead are flags that have a function in the capture, but not in read.
var peerFlagsOfRead = []peerFlag{
	{letter: "U", name: "packet-buffered", accepted: "packets are handed over as they are read"},
	{letter: "p", name: "no-promiscuous-mode", accepted: "packets come from files"},
	{letter: "P", name: "promiscuous-mode", accepted: "packets come from files"},
	{letter: "B", name: "buffer-size", value: "KiB", accepted: "packets come from files", takes: []string{}},
	{letter: "Q", name: "direction", value: "direction", instead: "choose packets by the filter inbound or outbound"},
	{letter: "s", name: "snapshot-length", value: "bytes", instead: "packets keep the bytes that the file has: cut them with editcap -s"},
	{letter: "j", name: "time-stamp-type", value: "type", instead: "the time stamps are those of the file: omit it"},
	{letter: "J", name: "list-time-stamp-types", instead: "the time stamps are those of the file: omit it"},
	{letter: "D", name: "list-interfaces", instead: "say xdpcap interfaces, or xdpcap read --stats for those of a file"},
	{name: "count", instead: "say xdpcap read --stats, which counts packets"},
	{letter: "r", name: "read-file", value: "file", instead: "say xdpcap read out.pcapng, without -r"},
}

const fromFiles = "packets come from files: omit it"

// AddPeerFlagsToCapture adds the peers' flags to the capture, hidden from the help.
func AddPeerFlagsToCapture(f *pflag.FlagSet) { Define(f, peerRows(slices.Clone(peerFlags))...) }

// AddPeerFlagsToRead adds the peers' flags to read, hidden from the help.
func AddPeerFlagsToRead(f *pflag.FlagSet) {
	all := slices.Concat(peerFlags, peerFlagsOfRead)
	for i := range all {
		if p := &all[i]; p.reading != "" {
			p.accepted, p.takes, p.instead = "", nil, p.reading
		}
	}
	Define(f, peerRows(all)...)
}

// PeerFlags returns the peers' flags that the capture accepts, or else those that it refuses, for
// the manual. A flag without a long name has its letter as its name.
func PeerFlags(accepted bool) []Flag {
	return peerRows(slices.DeleteFunc(slices.Clone(peerFlags), func(p peerFlag) bool { return (p.accepted != "") != accepted }))
}

func peerRows(flags []peerFlag) (all []Flag) {
	for i := range flags {
		p := &flags[i]
		row := Flag{Name: cmp.Or(p.name, p.letter), Letter: p.letter, Value: p, Help: p.help(), Hidden: true} // package pflag requires a name
		if p.takes == nil {
			row.Bare = "true"
		}
		all = append(all, row)
	}
	return all
}

// InsteadOfPeerFlag returns the hint of a peer's flag that is refused with every value; "" for all
// other flags.
func InsteadOfPeerFlag(f *pflag.Flag) string {
	if p, ok := f.Value.(*peerFlag); ok && p.accepted == "" {
		return p.instead
	}
	return ""
}

// IsAcceptedPeerFlag reports whether a flag is accepted without effect.
func IsAcceptedPeerFlag(f *pflag.Flag) bool {
	p, ok := f.Value.(*peerFlag)
	return ok && p.accepted != ""
}

// shortName is the flag's name in the help.
func (p *peerFlag) shortName() string {
	if p.letter == "" {
		return "--" + p.name
	}
	return strings.Join(append([]string{"-" + p.letter}, p.takes...), " ")
}

// help is the manual's text about the flag.
func (p *peerFlag) help() string {
	switch {
	case p.accepted == "":
		return p.instead
	case p.takes != nil:
		return strings.Join(p.takes, " or ") + ": " + p.accepted
	}
	return p.accepted
}

func (p *peerFlag) Set(value string) error {
	accepts := func(v string) bool { return strings.EqualFold(v, value) }
	if p.accepted != "" && (len(p.takes) == 0 || slices.ContainsFunc(p.takes, accepts)) {
		return nil
	}
	return Refusal(p.instead)
}

func (p *peerFlag) String() string { return "" }

func (p *peerFlag) Type() string { return p.value }

// PeerFlagsNote is the note in the help about the peers' flags, which it does not list one by one.
func PeerFlagsNote() Note {
	var accepted []string
	for _, p := range peerFlags {
		if p.accepted != "" {
			accepted = append(accepted, p.shortName())
		}
	}
	return Note{Title: "Flags of tcpdump, dumpcap and xdpdump", Text: strings.Join(accepted, " ") +
		" are accepted, since they change nothing here. All others are refused, with a hint on what to do instead."}
}
