package testnet

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// DispatcherComponents are the programs that a Dispatcher calls, in the order in which they run.
// The last one drops every packet.
var DispatcherComponents = []string{
	dispatcherProgFirewallComponent, dispatcherProgLoadBalancerComponent, dispatcherProgStatisticsComponent,
}

// A Dispatcher is several XDP programs that run one after the other on one interface, attached as
// libxdp does it.
type Dispatcher struct {
	main       *ebpf.Program
	components []*ebpf.Program // in the order of DispatcherComponents
	link       link.Link       // attaches main to the interface
	freplaces  []link.Link     // put components into main
}

// AttachDispatcher attaches testdata/dispatcher.c to an interface of a namespace. Needs root, and a
// kernel where extension programs load: one that has fentry.
func AttachDispatcher(ns *Namespace, ifname string) (*Dispatcher, error) {
	d := &Dispatcher{}
	if err := d.attach(ns, ifname); err != nil {
		return nil, errors.Join(fmt.Errorf("attach a dispatcher to %s: %w", ifname, err), d.Close())
	}
	return d, nil
}

func (d *Dispatcher) attach(ns *Namespace, ifname string) error {
	spec, err := loadDispatcher()
	if err != nil {
		return err
	}
	if d.main, err = ebpf.NewProgram(spec.Programs[dispatcherProgXdpDispatcher]); err != nil {
		return err
	}
	for i, name := range DispatcherComponents {
		component := spec.Programs[name]
		component.AttachTarget = d.main
		component.AttachTo = slot(i)
		p, err := ebpf.NewProgram(component)
		if err != nil {
			return err
		}
		d.components = append(d.components, p)
	}
	if d.freplaces, err = fill(d.main, d.components); err != nil {
		return err
	}
	return d.attachTo(ns, ifname)
}

// SoleComponent is the only program of AttachSole. It drops every packet.
const SoleComponent = dispatcherProgStatisticsComponent

// AttachSole attaches a dispatcher to an interface as libxdp does it for a single program: that
// replaces the dispatcher's main function.
func AttachSole(ns *Namespace, ifname string) (*Dispatcher, error) {
	d := &Dispatcher{}
	if err := d.attachSole(ns, ifname); err != nil {
		return nil, errors.Join(fmt.Errorf("attach a dispatcher of one program to %s: %w", ifname, err), d.Close())
	}
	return d, nil
}

func (d *Dispatcher) attachSole(ns *Namespace, ifname string) error {
	spec, err := loadDispatcher()
	if err != nil {
		return err
	}
	if d.main, err = ebpf.NewProgram(spec.Programs[dispatcherProgXdpDispatcher]); err != nil {
		return err
	}
	component := spec.Programs[SoleComponent]
	component.AttachTarget, component.AttachTo = d.main, dispatcherProgXdpDispatcher
	p, err := ebpf.NewProgram(component)
	if err != nil {
		return err
	}
	d.components = []*ebpf.Program{p}
	l, err := link.AttachFreplace(d.main, dispatcherProgXdpDispatcher, p)
	if err != nil {
		return err
	}
	d.freplaces = []link.Link{l}
	return d.attachTo(ns, ifname)
}

func (d *Dispatcher) attachTo(ns *Namespace, ifname string) error {
	return ns.Do(func() error {
		netif, err := net.InterfaceByName(ifname)
		if err != nil {
			return err
		}
		d.link, err = link.AttachXDP(link.XDPOptions{Program: d.main, Interface: netif.Index, Flags: link.XDPDriverMode})
		return err
	})
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
	spec, err := loadDispatcher()
	if err != nil {
		return err
	}
	main, err := ebpf.NewProgram(spec.Programs[dispatcherProgXdpDispatcher])
	if err != nil {
		return err
	}
	links, err := fill(main, d.components[first:])
	if err == nil {
		err = d.link.Update(main)
	}
	d.main, main = main, d.main
	d.freplaces, links = links, d.freplaces
	errs := []error{err, main.Close()}
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// ID returns the id of a component, by its index in DispatcherComponents.
func (d *Dispatcher) ID(component int) (uint32, error) {
	p, err := xdp.Identify(d.components[component])
	return p.ID, err
}

// Close detaches the dispatcher and its components. A second call does nothing.
func (d *Dispatcher) Close() error {
	var errs []error
	if d.link != nil {
		errs = append(errs, d.link.Close())
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

// ReplaceMain makes another program run instead of the target's main function until the target is
// closed: the first of DispatcherComponents, which passes every packet. It returns that program's
// id. Needs a kernel where extension programs load.
func (t *Target) ReplaceMain() (id uint32, err error) {
	spec, err := loadDispatcher()
	if err != nil {
		return 0, err
	}
	info, err := t.prog.Info()
	if err != nil {
		return 0, err
	}
	extension := spec.Programs[DispatcherComponents[0]]
	extension.AttachTarget, extension.AttachTo = t.prog, info.Name
	p, err := ebpf.NewProgram(extension)
	if err != nil {
		return 0, fmt.Errorf("load a replacement for %s: %w", info.Name, err)
	}
	defer p.Close() // the link keeps it
	l, err := link.AttachFreplace(t.prog, info.Name, p)
	if err != nil {
		return 0, fmt.Errorf("replace %s: %w", info.Name, err)
	}
	t.links = append(t.links, l)
	by, err := xdp.Identify(p)
	return by.ID, err
}
