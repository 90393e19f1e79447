package meter

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Counters can run inside programs that the caller attaches; the caller then runs them for every
// packet to be counted. The functions Embed* return counters together with such programs; the
// programs' instructions refer to the maps that the counters read. Follow does not look at the
// interface then: the caller knows when its programs are gone.

// embed is the attachment of counters whose programs the caller attaches to an interface.
func embed(iface string, program xdp.Program) (*attachment, error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	ifi, err := xdp.EthernetInterface(iface)
	if err != nil {
		return nil, err
	}
	return &attachment{
		ifi:     ifi,
		program: program,
		began:   time.Now(),
	}, nil
}

// embedded returns a program of a collection, with instructions that refer to their maps. It
// creates the maps that are nil, and one for the constants. The caller closes the maps, also after
// an error.
func (h *attachment) embedded(spec *ebpf.CollectionSpec, name string, maps map[string]**ebpf.Map) (*ebpf.ProgramSpec, error) {
	given, err := makeMaps(spec, maps)
	if err != nil {
		return nil, support.ExplainLoad("prepare the counting program", err)
	}
	constants, err := makeConstants(spec)
	if err != nil {
		return nil, support.ExplainLoad("prepare the counting program", err)
	}
	h.constants = append(h.constants, constants)
	given[rodata] = constants
	p := spec.Programs[name].Copy()
	for i := range p.Instructions {
		ins := &p.Instructions[i]
		if !ins.IsLoadFromMap() {
			continue
		}
		m, ok := given[ins.Reference()]
		if !ok {
			return nil, fmt.Errorf("program %s: no map %s", name, ins.Reference())
		}
		if err := ins.AssociateMap(m); err != nil {
			return nil, fmt.Errorf("program %s: map %s: %w", name, ins.Reference(), err)
		}
	}
	return p, nil
}

// rodata is the map of a collection's constants.
const rodata = ".rodata"

// makeConstants makes the map of the constants, with their values in spec.
func makeConstants(spec *ebpf.CollectionSpec) (*ebpf.Map, error) {
	c, err := ebpf.NewCollection(&ebpf.CollectionSpec{
		Maps:      map[string]*ebpf.MapSpec{rodata: spec.Maps[rodata]},
		Variables: spec.Variables,
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.DetachMap(rodata), nil
}

// EmbedProtocols makes counters of protocols, and the program that counts. The program's type is
// ebpf.XDP, or ebpf.SchedCLS for what an interface sends. If `of` has an id, that program is
// traced: then program is for the entry, and exit, unless it is nil, for the exit. The options
// Program and Mode are ignored.
func EmbedProtocols(o ProtocolsOptions, of xdp.Program) (p *Protocols, program, exit *ebpf.ProgramSpec, err error) {
	at, err := embed(o.Interface, of)
	if err != nil {
		return nil, nil, nil, err
	}
	spec, err := protocolsSpec(o)
	if err != nil {
		return nil, nil, nil, err
	}
	names := []string{o.program()}
	if of.ID != 0 && !o.Sent {
		names = o.tracers()
	}
	p = newProtocols(o, spec)
	p.attachment = at
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	for _, name := range names {
		counts, err := at.embedded(spec, name, p.named())
		if err != nil {
			return nil, nil, nil, err
		}
		if counts.AttachType == ebpf.AttachTraceFExit {
			exit = counts
		} else {
			program = counts
		}
	}
	return p, program, exit, p.prepare()
}

// EmbedActions makes counters of verdicts, and the program that counts at the exit of another
// program.
func EmbedActions(iface string, of xdp.Program) (*Actions, *ebpf.ProgramSpec, error) {
	at, err := embed(iface, of)
	if err != nil {
		return nil, nil, err
	}
	a := &Actions{attachment: at}
	spec, err := a.spec()
	if err != nil {
		return nil, nil, err
	}
	program, err := at.embedded(spec, actionsProgCountExit, a.named())
	if err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, program, nil
}

// EmbedLatency makes histograms of a program's run time, and the programs that measure it. The
// caller must run entry last at the program's entry and exit first at its exit, so that what else
// runs there is not measured.
func EmbedLatency(iface string, of xdp.Program) (l *Latency, entry, exit *ebpf.ProgramSpec, err error) {
	l = &Latency{}
	if l.attachment, err = embed(iface, of); err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	spec, err := loadLatency()
	if err != nil {
		return nil, nil, nil, err
	}
	maps, err := l.probeMaps(spec)
	if err != nil {
		return nil, nil, nil, err
	}
	if entry, err = l.embedded(spec, latencyProgNoteEntry, maps); err != nil {
		return nil, nil, nil, err
	}
	exit, err = l.embedded(spec, latencyProgNoteExit, maps)
	return l, entry, exit, err
}
