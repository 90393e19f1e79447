package testnet

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// DispatcherComponents are the programs that a Dispatcher calls, in the order in which they run.
// The last one drops every packet.
var DispatcherComponents = []string{
	targetProgFirewallComponent, targetProgLoadBalancerComponent, targetProgStatisticsComponent,
}

// A Dispatcher is several XDP programs that run one after the other on one interface, attached as
// libxdp does it.
type Dispatcher struct {
	main       *ebpf.Program
	components []*ebpf.Program // in the order of DispatcherComponents
	link       link.Link       // attaches main to the interface
	freplaces  []link.Link     // put components into main
}

// MustDispatcher attaches the dispatcher of testdata/target.c to the pair's Rx until the test ends.
// It needs a kernel with fentry, where extension programs load.
func MustDispatcher(tb TB, p *Pair) *Dispatcher {
	tb.Helper()
	d := &Dispatcher{}
	closeAfter(tb, "dispatcher", d.Close)
	spec, err := loadTarget()
	Must(tb, err)
	d.main, err = ebpf.NewProgram(spec.Programs[targetProgXdpDispatcher])
	Must(tb, err)
	for i, name := range DispatcherComponents {
		component := spec.Programs[name]
		component.AttachTarget = d.main
		component.AttachTo = slot(i)
		prog, err := ebpf.NewProgram(component)
		Must(tb, err)
		d.components = append(d.components, prog)
	}
	d.freplaces, err = fill(d.main, d.components)
	Must(tb, err)
	d.link, err = attachXDP(p.Rx, p.RxName, d.main, link.XDPDriverMode)
	Must(tb, err)
	return d
}

// slot is the name of the function of a dispatcher that a component replaces.
func slot(i int) string { return fmt.Sprintf("prog%d", i) }

// fill replaces the functions of a dispatcher by components.
func fill(main *ebpf.Program, components []*ebpf.Program) (links []link.Link, err error) {
	for i, p := range components {
		l, err := link.AttachFreplace(main, slot(i), p)
		if err != nil {
			return links, err
		}
		links = append(links, l)
	}
	return links, nil
}

// Replace exchanges the dispatcher for a new one with the components from `first` on, which are the
// same programs as before.
func (d *Dispatcher) Replace(first int) error {
	spec, err := loadTarget()
	if err != nil {
		return err
	}
	main, err := ebpf.NewProgram(spec.Programs[targetProgXdpDispatcher])
	if err != nil {
		return err
	}
	links, err := fill(main, d.components[first:])
	if err == nil {
		err = d.link.Update(main)
	}
	errs := []error{err, d.main.Close()}
	for _, l := range d.freplaces {
		errs = append(errs, l.Close())
	}
	d.main, d.freplaces = main, links
	return errors.Join(errs...)
}

// ID returns the id of a component, by its index in DispatcherComponents.
func (d *Dispatcher) ID(component int) (uint32, error) {
	p, err := xdp.Identify(d.components[component])
	return p.ID, err
}

// MainID returns the id of the dispatcher itself.
func (d *Dispatcher) MainID() (uint32, error) {
	p, err := xdp.Identify(d.main)
	return p.ID, err
}

// Close detaches the dispatcher and its components. A second call has no effect.
func (d *Dispatcher) Close() error {
	var errs []error
	if d.link != nil {
		errs = append(errs, detach(d.link))
	}
	for _, l := range d.freplaces {
		errs = append(errs, l.Close())
	}
	for _, p := range append(d.components, d.main) {
		errs = append(errs, p.Close())
	}
	*d = Dispatcher{}
	return errors.Join(errs...)
}
