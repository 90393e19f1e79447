package cli

import (
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
)

// summary is what the output has taken by its account; more tells whether it knows more than that.
func (o *namedOutput) summary(a *capture.Account) (s outputSummary, more bool) {
	s = outputSummary{Output: o.name, Captured: a.Captured, Bytes: a.Bytes, NotTaken: a.NotTaken}
	of, more := o.liveOutput.(summarizer)
	if more {
		of.summarize(&s)
	}
	return s, more
}

// invitation says who may connect to the output of --serve; "" for any other.
func (o *namedOutput) invitation() string {
	if server, ok := o.liveOutput.(*liveServer); ok {
		return fmt.Sprintf("sending packets to clients of %s%s", o.name, server.where)
	}
	return ""
}

// outputSummary is what one of several outputs has taken, of all sources together.
type outputSummary struct {
	Output   string `json:"output"` // as -w has it
	Captured uint64 `json:"captured"`
	Bytes    uint64 `json:"bytes"`
	NotTaken uint64 `json:"not_taken"`

	Recordings         *uint64 `json:"recordings,omitempty"`           // of --ring
	TriggersPassedOver uint64  `json:"triggers_passed_over,omitempty"` // triggers that made no recording

	SFlow          *sflowSummary `json:"sflow,omitempty"`
	Clients        *uint64       `json:"clients,omitempty"`         // of --serve: connections that were accepted
	ClientsRefused uint64        `json:"clients_refused,omitempty"` // connections that were refused
	ClientsLost    uint64        `json:"clients_lost,omitempty"`    // packets that slow clients lost, together
}

// A summarizer is a destination that adds more to its summary than its account.
type summarizer interface{ summarize(*outputSummary) }

func (s outputSummary) String() string {
	text := fmt.Sprintf("%s: %s captured, %d not taken", escape.Text(s.Output), frame.Packets(s.Captured), s.NotTaken)
	if s.Recordings != nil {
		text += fmt.Sprintf("; %d recordings, %d further triggers", *s.Recordings, s.TriggersPassedOver)
	}
	if s.SFlow != nil {
		text += fmt.Sprintf("; %s", s.SFlow)
	}
	if s.Clients != nil {
		text += fmt.Sprintf("; %d clients, which lost %d packets, %d clients refused", *s.Clients, s.ClientsLost, s.ClientsRefused)
	}
	return text
}
