package attach

import (
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Link is the link of the first program, which is at an XDP hook.
func (a *Attachment) Link() link.Link { return a.links[0].(xdp.Link).Link }
