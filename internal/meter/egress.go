package meter

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An egress is a program of ours that sees what an interface sends.
type egress struct {
	ifi   xdp.Interface
	prog  *ebpf.Program
	at    *tc.Attachment
	began time.Time
}

// attachEgress takes ownership of the program, unless it returns an error.
func attachEgress(ifi xdp.Interface, prog *ebpf.Program) (*egress, error) {
	at, err := tc.AttachEgress(prog, ifi)
	if err != nil {
		return nil, err
	}
	return &egress{ifi: ifi, prog: prog, at: at, began: time.Now()}, nil
}

func (e *egress) Interface() xdp.Interface { return e.ifi }
func (e *egress) Began() time.Time         { return e.began }

// Follow never finds another program to count: its error is final.
func (e *egress) Follow() (notice string, err error) {
	err = e.at.Check()
	switch {
	case errors.Is(err, xdp.ErrGone):
		return "", gone(e.ifi)
	case err != nil:
		return "", fmt.Errorf("%w: start again", err)
	}
	return "", nil
}

// Capabilities returns the capabilities that detaching needs.
func (e *egress) Capabilities() []int {
	if e.at.Kind().NeedsNetAdmin() {
		return []int{unix.CAP_NET_ADMIN}
	}
	return nil
}

// String says where it counts: "eth0, sent, tcx".
func (e *egress) String() string { return fmt.Sprintf("%s, sent, %v", e.ifi.Name, e.at) }

func (e *egress) close() error { return errors.Join(e.at.Close(), e.prog.Close()) }
