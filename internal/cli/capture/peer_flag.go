package capture

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A peerFlag is a flag of tcpdump, dumpcap or xdpdump for which xdpcap has no function. If these
// tools give a letter different meanings, tcpdump's counts. A flag that changes nothing here is
// accepted. Any other is refused with what to do instead. So a command line that somebody types
// from habit, or that a script has, either works or prints in one line how to change it.
type peerFlag struct {
	letter, name string   // either may be ""
	value        string   // name of its value in the manual; "" = it has none
	takes        []string // the values of a flag that is accepted

	accepted string // why it changes nothing; "" = the flag is refused
	instead  string // what to do if the flag, or a value that is not in takes, is refused
}

// peerFlags are all of these flags. The parser, the help and the manual use this list.
var peerFlags = []peerFlag{
	{letter: "l", accepted: "lines are printed 50 ms after their packets at the latest, and with -U at once"},
	{letter: "N", accepted: "addresses are always numbers"},
	{letter: "f", accepted: "addresses are always numbers; as in dumpcap, a filter may follow it"},
	{letter: "S", name: "absolute-tcp-sequence-numbers", accepted: "sequence numbers are always absolute"},
	{letter: "K", name: "dont-verify-checksums", accepted: "checksums are not verified"},
	{letter: "u", accepted: "NFS is not decoded"},
	{letter: "H", accepted: "there are no 802.11 frames at XDP"},
	{name: "immediate-mode", accepted: "packets are handed over after 50 ms at the latest, and with -U at once"},
	{letter: "y", name: "linktype", value: "linktype", takes: []string{"EN10MB"}, accepted: "XDP sees Ethernet frames only",
		instead: "XDP sees Ethernet frames only: say -y EN10MB"},
	{name: "time-stamp-precision", value: "precision", takes: []string{"micro", "nano"},
		accepted: "files have nanoseconds, and lines microseconds", instead: "say micro or nano: files always have nanoseconds"},
	{name: "micro", accepted: "files have nanoseconds, and lines microseconds"},
	{name: "nano", accepted: "files have nanoseconds, and lines microseconds"},
	{name: "load-xdp-program", accepted: "xdpcap attaches a program of its own where none runs"},

	{letter: "V", value: "file", instead: "say xdpcap read $(cat FILE)"},
	{letter: "E", value: "secret", instead: "xdpcap does not decrypt: write a file with -w, and read it with tcpdump -E or Wireshark"},
	{letter: "M", value: "secret", instead: "xdpcap does not check TCP-MD5 digests: write a file with -w, and read it with tcpdump -M"},
	{letter: "m", value: "module", instead: "xdpcap does not decode SNMP: write a file with -w, and read it with tcpdump -m"},
	{letter: "T", value: "type", instead: "xdpcap decodes by port: write a file with -w, and read it with tcpdump -T"},
	{letter: "I", name: "monitor-mode", instead: "XDP sees Ethernet frames only: capture 802.11 frames with tcpdump -I"},
	{letter: "k", value: "channel", instead: "XDP sees Ethernet frames only: set a Wi-Fi channel with iw"},
	{letter: "L", name: "list-data-link-types", instead: "there is one, EN10MB: XDP sees Ethernet frames only"},
	{letter: "g", instead: "files are for their owner alone: chmod g+r FILE when xdpcap has ended"},
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
	{name: "log-file", value: "path", instead: "xdpcap has no log: omit it, or say 2>FILE"},
}

// addPeerFlags adds the flags of other tools to the capture, hidden from the help.
func addPeerFlags(f *pflag.FlagSet) {
	for i := range peerFlags {
		p := &peerFlags[i]
		name := p.name
		if name == "" {
			name = p.letter // package pflag requires a name
		}
		flag := f.VarPF(p, name, p.letter, p.says())
		flag.Hidden = true
		if !p.needsValue() {
			flag.NoOptDefVal = "true"
		}
	}
}

// needsValue says whether the flag must have a value. A flag that is always refused needs none.
func (p *peerFlag) needsValue() bool { return p.takes != nil }

// shortName is the flag's name in the help.
func (p *peerFlag) shortName() string {
	if p.letter == "" {
		return "--" + p.name
	}
	return strings.Join(append([]string{"-" + p.letter}, p.takes...), " ")
}

// says is the manual's text about the flag.
func (p *peerFlag) says() string {
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
	if p.accepted != "" && (!p.needsValue() || slices.ContainsFunc(p.takes, accepts)) {
		return nil
	}
	return frame.Refusal(p.instead)
}

func (p *peerFlag) String() string { return "" }

func (p *peerFlag) Type() string { return p.value }

// SentNote is about the capture of what is sent.
var SentNote = frame.Note{Title: "What is sent", Text: "-Q out and -Q inout see a packet before the kernel or the card cuts it into segments (GSO): it may " +
	"have 64 KiB, and -v prints the size of its segments. A checksum that the card will compute is not there yet, and no transmit queue " +
	"is chosen. What an XDP program sends does not pass there: capture it with --rx-capture exit --verdict tx,redirect."}

// PeerNote is about the flags that the help does not list.
func PeerNote() frame.Note {
	var accepted []string
	for _, p := range peerFlags {
		if p.accepted != "" {
			accepted = append(accepted, p.shortName())
		}
	}
	return frame.Note{Title: "Flags of tcpdump, dumpcap and xdpdump", Text: strings.Join(accepted, " ") +
		" are accepted, since they change nothing here. All others are refused, with a hint on what to do instead."}
}

// Peers are the flags of other tools as the manual has them.
func Peers() (all []frame.PeerFlag) {
	for _, p := range peerFlags {
		all = append(all, frame.PeerFlag{
			Letter: p.letter, Name: p.name, Value: p.value, Accepted: p.accepted != "", Says: p.says(),
		})
	}
	return all
}
