package outputs

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// Summary returns the output's summary by its account; more means that the output has added to it.
func (o *Named) Summary(a *capture.Account) (s Summary, more bool) {
	s = Summary{Output: o.Name, Captured: a.Captured, Bytes: a.Bytes, NotTaken: a.NotTaken}
	output, more := o.Live.(summarizer)
	if more {
		output.Summarize(&s)
	}
	return s, more
}

// Invitation has messages about how clients connect to --serve; nil for other outputs.
func (o *Named) Invitation() []string {
	if server, ok := o.Live.(*liveServer); ok {
		return []string{fmt.Sprintf("sending packets to clients of %s%s", o.Name, server.where), "to receive them: " + server.command(o.Name)}
	}
	return nil
}

// command is a command that connects to the server.
func (s *liveServer) command(name string) string {
	if s.local != nil {
		return "xdpcap read " + message.ShellWord(name)
	}
	u, err := url.Parse(name)
	if err != nil {
		return "xdpcap read " + name
	}
	enter := "" // a prefix that runs the command in the server's network namespace
	switch ip, err := netip.ParseAddr(u.Hostname()); {
	case err != nil:
	case ip.IsLoopback() && s.elsewhere:
		enter = fmt.Sprintf("nsenter -t %d -n ", os.Getpid())
	case ip.IsUnspecified():
		if host, err := os.Hostname(); err == nil {
			u.Host = net.JoinHostPort(host, u.Port())
		}
	}
	if s.secure {
		return fmt.Sprintf("%sxdpcap read --tls-ca FILE %s", enter, u)
	}
	return fmt.Sprintf("%sxdpcap read %s, or %swireshark -k -i TCP@%s", enter, u, enter, u.Host)
}

// Summary counts the packets that one of several outputs has accepted, of all sources together.
type Summary struct {
	Output   string `json:"output"` // as given with -w
	Captured uint64 `json:"captured"`
	Bytes    uint64 `json:"bytes"`
	NotTaken uint64 `json:"not_taken"`

	Recordings         *uint64 `json:"recordings,omitempty"`           // of --ring
	TriggersPassedOver uint64  `json:"triggers_passed_over,omitempty"` // triggers that made no recording

	SFlow          *sflow.Counts `json:"sflow,omitempty"`
	Clients        *uint64       `json:"clients,omitempty"`         // of --serve: connections that were accepted
	ClientsRefused uint64        `json:"clients_refused,omitempty"` // connections that were refused
	ClientsLost    uint64        `json:"clients_lost,omitempty"`    // packets that slow clients lost, together
}

// A summarizer is a destination that adds more counts to its summary.
type summarizer interface{ Summarize(*Summary) }

// String is the summary as a line.
func (s Summary) String() string {
	output := s.Output
	if s.Recordings != nil {
		output = RecordingNames(output)
	}
	text := fmt.Sprintf("%s: %s captured, %d not taken", message.Escape(output), frame.Packets(s.Captured), s.NotTaken)
	if s.Recordings != nil {
		text += fmt.Sprintf("; %s, %s", frame.Several(*s.Recordings, "recording"), frame.Several(s.TriggersPassedOver, "further trigger"))
	}
	if s.SFlow != nil {
		text += fmt.Sprintf("; %d datagrams with %d flow samples, %d discarded packets and %d counter samples; %d datagrams refused",
			s.SFlow.Datagrams, s.SFlow.FlowSamples, s.SFlow.DiscardedSamples, s.SFlow.CounterSamples, s.SFlow.Refused)
	}
	if s.Clients != nil {
		text += fmt.Sprintf("; %s, which lost %s, %s refused", frame.Several(*s.Clients, "client"), frame.Packets(s.ClientsLost), frame.Several(s.ClientsRefused, "client"))
	}
	return text
}
