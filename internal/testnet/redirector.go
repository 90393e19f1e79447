package testnet

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// UDP destination ports that choose how a Redirector sends a packet on.
const (
	BackPort      = 1 + iota // XDP_TX
	IndexPort                // to an interface, by its index
	DevmapPort               // to that interface, by a devmap
	HashPort                 // to that interface, by a devmap with hashed keys
	NamespacePort            // by a devmap to an interface of another network namespace
	BroadcastPort            // to all interfaces of a devmap
	CPUPort                  // to a CPU
	UnsaidPort               // XDP_REDIRECT, without a call that says where to
)

// A Redirector is the XDP program of testdata/redirect.c, which sends packets on.
type Redirector struct {
	coll *ebpf.Collection
	link link.Link
}

// AttachRedirector attaches the program to Rx of a pair. It redirects to out's Rx, which is in the
// same namespace, or to elsewhere's Rx, which is in another one. Needs root.
func AttachRedirector(pair, out, elsewhere *Pair) (r *Redirector, err error) {
	spec, err := loadRedirect()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[redirectVarOutlet].Set(uint32(out.RxIndex)); err != nil {
		return nil, err
	}
	r = new(Redirector)
	if r.coll, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the program that redirects: %w", err)
	}
	maps := r.coll.Maps
	err = pair.Rx.Do(func() error {
		r.link, err = link.AttachXDP(link.XDPOptions{
			Program: r.coll.Programs[redirectProgRedirectingTarget], Interface: pair.RxIndex, Flags: link.XDPDriverMode,
		})
		return errors.Join(err,
			maps[redirectMapDevices].Put(uint32(0), uint32(out.RxIndex)),
			maps[redirectMapHashed].Put(uint32(0), uint32(out.RxIndex)),
			maps[redirectMapCpus].Put(uint32(0), uint32(1))) // packets
	})
	if err == nil {
		err = elsewhere.Rx.Do(func() error { return maps[redirectMapDevices].Put(uint32(1), uint32(elsewhere.RxIndex)) })
	}
	if err != nil {
		return nil, fmt.Errorf("attach the program that redirects to %s: %w", pair.RxName, errors.Join(err, r.Close()))
	}
	return r, nil
}

// Close detaches the program.
func (r *Redirector) Close() (err error) {
	if r.link != nil {
		err = r.link.Close()
	}
	r.coll.Close()
	return err
}
