package tc

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A tcxLink is a program in the list that the kernel runs for each packet. The link holds it there,
// so the kernel removes it when the process dies.
type tcxLink struct{ link xdp.Link }

// attachTCX puts the program before all others there. A program that is attached later may be put
// before it.
func attachTCX(prog *ebpf.Program, ifindex int, at Direction) (*tcxLink, error) {
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: ifindex,
		Program:   prog,
		Attach:    directions[at].tcx,
		Anchor:    link.Head(),
	})
	if errors.Is(err, unix.ERANGE) {
		return nil, fmt.Errorf("%w: it already runs as many programs there as the kernel allows: detach another one", err)
	}
	if err != nil {
		return nil, err
	}
	return &tcxLink{xdp.Link{Link: l}}, nil
}

func (t *tcxLink) behind() int { return 0 }

func (t *tcxLink) check() error {
	info, err := t.link.Info()
	if err != nil {
		return nil // an error of the query does not mean that the link is gone
	}
	if tcx := info.TCX(); tcx != nil && tcx.Ifindex == 0 {
		return errors.New("somebody has detached the tcx link")
	}
	return nil
}

func (t *tcxLink) replace(prog *ebpf.Program) error { return t.link.Update(prog) }

func (t *tcxLink) detach() error { return t.link.Close() }
