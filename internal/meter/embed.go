package meter

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Counters can run inside programs that the caller attaches. The functions Embed* return a counter
// together with its programs, whose instructions already refer to the maps that the counter reads.
// The caller runs them for every packet to be counted. Follow does not check the interface then:
// only the caller can notice that its programs are gone.

// embed returns programs for the caller to attach to an interface. `of` is the program that the
// caller traces. After an error everything is closed.
func (c *counter) embed(iface string, of xdp.Program, names ...string) (programs []*ebpf.ProgramSpec, err error) {
	ifi, err := countable(iface)
	if err != nil {
		return nil, err
	}
	c.attachment = &attachment{ifi: ifi, program: of, began: time.Now()}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, name := range names {
		p, err := c.embedded(name)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// embedded returns one program, and creates the maps if it is the first.
func (c *counter) embedded(name string) (*ebpf.ProgramSpec, error) {
	err := c.makeMaps()
	if err != nil {
		return nil, support.ExplainLoad("prepare the counting program", err)
	}
	shared := maps.Clone(c.maps)
	if shared[rodata], err = makeConstants(c.spec); err != nil {
		return nil, support.ExplainLoad("prepare the counting program", err)
	}
	c.constants = append(c.constants, shared[rodata])
	p := c.spec.Programs[name].Copy()
	for i := range p.Instructions {
		ins := &p.Instructions[i]
		if !ins.IsLoadFromMap() {
			continue
		}
		m, ok := shared[ins.Reference()]
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
// ebpf.XDP, or ebpf.SchedCLS for packets that an interface sends. If the caller traces the program
// `of`, which then has an id, the results are tracers: program for its entry, and exit for its
// exit, nil if no such tracer is needed. The options Program and Mode are ignored.
func EmbedProtocols(o ProtocolsOptions, of xdp.Program) (p *Protocols, program, exit *ebpf.ProgramSpec, err error) {
	if p, err = newProtocols(o); err != nil {
		return nil, nil, nil, err
	}
	names := []string{o.program()}
	if of.ID != 0 && !o.Sent {
		names = p.tracers
	}
	programs, err := p.embed(o.Interface, of, names...)
	if err != nil {
		return nil, nil, nil, errors.Join(err, p.flows.Close())
	}
	if len(programs) == 2 {
		exit = programs[0]
	}
	return p, programs[len(programs)-1], exit, nil
}

// EmbedActions makes counters of verdicts, and the program that counts at the exit of another
// program.
func EmbedActions(iface string, of xdp.Program) (*Actions, *ebpf.ProgramSpec, error) {
	a, err := newActions(ActionsOptions{})
	if err != nil {
		return nil, nil, err
	}
	programs, err := a.embed(iface, of, a.tracers...)
	if err != nil {
		return nil, nil, err
	}
	return a, programs[0], nil
}

// EmbedLatency makes histograms of a program's run time, and the programs that measure it. The
// caller must run entry last at the program's entry and exit first at its exit, so that other
// programs there are not measured.
func EmbedLatency(iface string, of xdp.Program) (l *Latency, entry, exit *ebpf.ProgramSpec, err error) {
	if l, err = newLatency(); err != nil {
		return nil, nil, nil, err
	}
	programs, err := l.embed(iface, of, l.tracers...)
	if err != nil {
		return nil, nil, nil, err
	}
	return l, programs[1], programs[0], nil
}
