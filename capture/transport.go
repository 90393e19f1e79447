package capture

import "github.com/xdpcap/xdpcap/capture/internal/ring"

// A Transport is a way in which packets come from the kernel to this process.
type Transport = ring.Transport

const (
	// TransportDefault is TransportPerf. If this process may not use perf's rings, it is
	// TransportRing, with a Notice.
	TransportDefault = ring.TransportDefault
	// TransportPerf sends packets through perf's rings, by bpf_perf_event_output.
	TransportPerf = ring.TransportPerf
	// TransportRing makes the programs write into memory that they share with this process. It
	// delays the traffic by a fraction of the time of perf, and needs no privileges for perf.
	TransportRing = ring.TransportRing
	// TransportAuto is TransportRing if the kernel has the memory for it, and otherwise
	// TransportDefault. Session.Options returns the chosen one.
	TransportAuto = ring.TransportAuto
)

// Transports returns the transports, without TransportDefault and TransportAuto, which choose one
// of them.
func Transports() []Transport { return ring.Transports() }

// ParseTransport reads the name of a transport, or "auto".
func ParseTransport(s string) (Transport, error) { return ring.ParseTransport(s) }

// rings are the options that the rings depend on.
func (o *Options) rings() ring.Options {
	return ring.Options{Transport: o.Transport, Size: o.Buffer, Immediate: o.Immediate, Interruptible: o.StackDrops, Notice: o.notice}
}
