package testnet

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// UDP destination ports at which a Reasoner drops a packet for a reason. It passes all others.
const (
	BlockedPort   = 1    // REASON_BLOCKED
	NoBackendPort = 2    // REASON_NO_BACKEND, with the verdict XDP_ABORTED
	SilentPort    = 3    // 0, no reason
	NumberPort    = 1000 // and all above: the port, for which its enum has no name
)

// A Reasoner is the XDP program of testdata/reasons.c, which says why it drops a packet.
type Reasoner struct {
	coll *ebpf.Collection
	link link.Link
}

// NewReasoner loads the program without attaching it. Needs root.
func NewReasoner() (*Reasoner, error) {
	spec, err := loadReasons()
	if err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the program that gives reasons: %w", err)
	}
	return &Reasoner{coll: coll}, nil
}

// AttachReasoner attaches the program to Rx of a pair, in native mode. Needs root.
func AttachReasoner(pair *Pair) (*Reasoner, error) {
	r, err := NewReasoner()
	if err != nil {
		return nil, err
	}
	err = pair.Rx.Do(func() error {
		r.link, err = link.AttachXDP(link.XDPOptions{Program: r.Program(), Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach the program that gives reasons to %s: %w", pair.RxName, errors.Join(err, r.Close()))
	}
	return r, nil
}

// Program returns the program, and Reasons its map. Both are valid until Close.
func (r *Reasoner) Program() *ebpf.Program { return r.coll.Programs[reasonsProgReasoningTarget] }
func (r *Reasoner) Reasons() *ebpf.Map     { return r.coll.Maps[reasonsMapReasons] }

// ReplaceBy attaches another one in the place of r, until r is closed.
func (r *Reasoner) ReplaceBy(other *Reasoner) error { return r.link.Update(other.Program()) }

// Close detaches the program.
func (r *Reasoner) Close() (err error) {
	if r.link != nil {
		err = r.link.Close()
	}
	r.coll.Close()
	return err
}
