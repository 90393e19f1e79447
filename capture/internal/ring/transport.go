package ring

import (
	"fmt"
	"strings"
)

// A Transport is a way in which packets come from the kernel to this process.
type Transport int

const (
	// TransportDefault is TransportPerf. If this process may not use perf's rings, it is
	// TransportRing, with a Notice.
	TransportDefault Transport = iota
	// TransportPerf sends packets through perf's rings, by bpf_perf_event_output.
	TransportPerf
	// TransportRing makes the programs write into memory that they share with this process. It
	// delays the traffic by a fraction of the time of perf, and needs no privileges for perf.
	TransportRing
	// TransportAuto is TransportRing if the kernel has the memory for it, and otherwise
	// TransportDefault. Session.Options returns the chosen one.
	TransportAuto
)

// A transportKind has the properties of a Transport. Each transport's own file declares one, and
// other code reads it instead of comparing transports.
type transportKind struct {
	name       string // in flags, files and messages
	about      string // its difference to the others, for users, in a few words
	maxSnapLen int    // the largest snaplen that a record can have, in bytes
	maxRing    int    // the largest ring of a CPU, in bytes; at most MaxSize

	// fit sets the size of each CPU's ring, and the transport: TransportDefault and TransportAuto
	// choose another one.
	fit    func(*Options) error
	memory func() ringMemory
	open   newTransport // nil for a transport that chooses another one

	lighter    Transport // see Transport.Lighter
	opensPerf  bool      // see Transport.OpensPerf
	showsPolls bool      // its rings can show the stamp of the current NAPI poll
}

// transportKinds are the kinds by their Transport.
var transportKinds = []*transportKind{
	TransportDefault: &byDefault,
	TransportPerf:    &byPerf,
	TransportRing:    &byRing,
	TransportAuto:    &byChoice,
}

var (
	byDefault = transportKind{name: "default", maxSnapLen: byPerf.maxSnapLen, fit: (*Options).fitPerf, lighter: byPerf.lighter}
	byChoice  = transportKind{name: "auto", about: "ring where possible", maxSnapLen: MaxSnapLen, fit: (*Options).fitEither}
)

func (t Transport) isKnown() bool { return t >= 0 && int(t) < len(transportKinds) }

func (t Transport) kind() *transportKind {
	if !t.isKnown() {
		return &byDefault
	}
	return transportKinds[t]
}

func (t Transport) String() string {
	if !t.isKnown() {
		return fmt.Sprintf("transport %d", int(t))
	}
	return t.kind().name
}

// Transports returns the transports, without TransportDefault and TransportAuto, which choose one
// of them.
func Transports() (all []Transport) {
	for t, kind := range transportKinds {
		if kind.open != nil {
			all = append(all, Transport(t))
		}
	}
	return all
}

// ParseTransport reads the name of a transport, or "auto".
func ParseTransport(s string) (Transport, error) {
	var names []string
	for _, t := range Transports() {
		if s == t.String() {
			return t, nil
		}
		names = append(names, t.String())
	}
	if s == TransportAuto.String() {
		return TransportAuto, nil
	}
	return 0, fmt.Errorf("transport %q: must be %s or %v", s, strings.Join(names, ", "), TransportAuto)
}

// About describes the difference to the other transports, in a few words.
func (t Transport) About() string { return t.kind().about }

// MaxSnapLen is the largest snaplen that the transport can carry, in bytes, with rings of any size.
func (t Transport) MaxSnapLen() int { return t.kind().maxSnapLen }

// Lighter returns the transport whose records are less work for the reader; TransportDefault =
// there is none.
func (t Transport) Lighter() Transport { return t.kind().lighter }

// OpensPerf reports whether the transport opens a perf event for a CPU that comes online. A sandbox
// must permit that.
func (t Transport) OpensPerf() bool { return t.kind().opensPerf }
