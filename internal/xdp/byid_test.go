package xdp_test

import (
	"errors"
	"net"
	"testing"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A link that another process is making has an id, but cannot be opened yet: the kernel says
// EAGAIN. Whoever goes through all links passes it over.
func TestLinksBeingMade(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	prog := testnet.MustPassing(t, "passing")
	done := make(chan error)
	go func() {
		done <- pair.Rx.Do(func() error {
			netif, err := net.InterfaceByName(pair.RxName)
			for range 20 {
				if err != nil {
					break
				}
				var l link.Link
				if l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: netif.Index}); err == nil {
					err = errors.Join(l.Detach(), l.Close()) // others may hold it for a moment
				}
			}
			return err
		})
	}()
	for {
		if err := xdp.EachLink(func(*link.Info) {}); err != nil {
			t.Error(err)
			<-done
			return
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
