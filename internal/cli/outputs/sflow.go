package outputs

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// SFlowScheme is the scheme of a -w that sends to an sFlow collector.
const SFlowScheme = "sflow"

// sflowOptions are the flags about sFlow.
type sflowOptions struct {
	agent           string
	CounterInterval time.Duration

	address  netip.Addr // of agent, parsed; invalid = the agent chooses
	subAgent uint32     // of agent, parsed; 0 = the agent chooses
	Header   int        // bytes of a packet; 0 = the agent chooses
}

// Flags are the flags of the capture.
func (o *sflowOptions) Flags() []frame.Flag {
	return []frame.Flag{
		// The default is sFlow's.
		{Name: "counter-interval", Value: &o.CounterInterval, Default: "20s", Settings: frame.NotForWireshark,
			Help: "at this `interval`, send the counters of interfaces to sFlow collectors, and write those of --stats, --count and the like into files"},
		o.AgentFlag(),
	}
}

// AgentFlag is the flag of the capture and of read.
func (o *sflowOptions) AgentFlag() frame.Flag {
	return frame.Flag{Name: "sflow-agent", Value: &o.agent, Settings: frame.NotForWireshark,
		Help: "the agent `address` by which sFlow collectors know this host, and after a comma the sub-agent id of this xdpcap (default: the address from which it sends, and the first interface's index)"}
}

// ReadAgent parses the value of --sflow-agent.
func (o *sflowOptions) ReadAgent() error {
	address, number, numbered := strings.Cut(o.agent, ",")
	var err error
	if o.address, err = netip.ParseAddr(address); err != nil {
		return fmt.Errorf("--sflow-agent %s: must be an IP address, and may have a number after a comma", o.agent)
	}
	if numbered {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("--sflow-agent %s: %s must be a number from 1 to %d", o.agent, number, uint32(1<<32-1))
		}
		o.subAgent = uint32(n)
	}
	return nil
}

// An sflowOutput is an sFlow agent as an output of the capture.
type sflowOutput struct{ *sflow.Agent }

// openSFlow opens the output of a -w sflow://HOST[:PORT].
func openSFlow(t *Target, o *Options, notice func(error)) (destination, error) {
	u := t.URL
	if u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("must be sflow://HOST or sflow://HOST:PORT, with [] around an IPv6 address")
	}
	a, err := sflow.OpenAgent(sflow.AgentOptions{
		Collector: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), strconv.Itoa(sflow.DefaultPort))),
		Address:   o.SFlow.address,
		SubAgent:  o.SFlow.subAgent,
		Header:    o.SFlow.Header,
		Interval:  o.SFlow.CounterInterval,
		Notice:    notice,
	})
	if err != nil {
		return nil, err
	}
	return sflowOutput{a}, nil
}

// Summarize adds what the agent has sent.
func (o sflowOutput) Summarize(s *Summary) {
	sent := o.Counts()
	s.SFlow = &sent
}
