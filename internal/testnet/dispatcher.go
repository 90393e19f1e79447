package testnet

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// DispatcherComponents are the programs behind a Dispatcher, in the order in which they run. The
// last one drops every packet.
var DispatcherComponents = []string{
	dispatcherProgFirewallComponent, dispatcherProgLoadBalancerComponent, dispatcherProgStatisticsComponent,
}

// A Dispatcher is several XDP programs that run one after the other on one interface, attached as
// libxdp does it.
type Dispatcher struct {
	progs []*ebpf.Program
	links []link.Link
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
	main, err := ebpf.NewProgram(spec.Programs[dispatcherProgXdpDispatcher])
	if err != nil {
		return err
	}
	d.progs = append(d.progs, main)
	for i, name := range DispatcherComponents {
		component := spec.Programs[name]
		component.AttachTarget = main
		component.AttachTo = fmt.Sprintf("prog%d", i)
		p, err := ebpf.NewProgram(component)
		if err != nil {
			return err
		}
		d.progs = append(d.progs, p)
		l, err := link.AttachFreplace(main, component.AttachTo, p)
		if err != nil {
			return err
		}
		d.links = append(d.links, l)
	}
	return ns.Do(func() error {
		netif, err := net.InterfaceByName(ifname)
		if err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: main, Interface: netif.Index, Flags: link.XDPDriverMode})
		if err == nil {
			d.links = append(d.links, l)
		}
		return err
	})
}

// ID returns the id of a component, by its index in DispatcherComponents.
func (d *Dispatcher) ID(component int) (uint32, error) {
	p, err := xdp.Identify(d.progs[1+component])
	return p.ID, err
}

// Close detaches the dispatcher and its components.
func (d *Dispatcher) Close() error {
	var errs []error
	for _, l := range d.links {
		errs = append(errs, l.Close())
	}
	for _, p := range d.progs {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
