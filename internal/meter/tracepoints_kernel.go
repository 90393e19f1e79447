package meter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A tracepoint of some kernels, and the program in bpf/tracepoints.c that reads it.
type tracepoint struct {
	name    string
	event   Event
	program string

	// args are the argument lists, without the first argument, that the program can read: those of
	// include/trace/events/xdp.h in Linux 5.14 to 6.18, and of 5.8 to 5.13. If a later kernel has
	// another list, the tracepoint is omitted: reading a wrong argument would be worse than not
	// counting.
	args []string

	ofProgram bool // it names the program, or a map
}

const (
	kthreadWithVerdicts = "int, uint, uint, int, *xdp_cpumap_stats"
	redirectArgs        = "*net_device, *bpf_prog, *void, int, bpf_map_type, uint, uint"
)

// Some kernels list tracepoints that they never hit: xdp_redirect_map and xdp_redirect_map_err
// since 5.6, mem_return_failed since 5.5. Their counters correctly stay zero, and no test can make
// them count.
var tracepoints = []tracepoint{
	{"xdp_redirect", Redirect, tracepointsProgXdpcapRedirect, []string{redirectArgs}, true},
	{"xdp_redirect_err", RedirectErr, tracepointsProgXdpcapRedirerr, []string{redirectArgs}, true},
	{"xdp_redirect_map", Redirect, tracepointsProgXdpcapRedirmap, []string{redirectArgs}, true},
	{"xdp_redirect_map_err", RedirectErr, tracepointsProgXdpcapMaperr, []string{redirectArgs}, true},
	{"xdp_exception", Exception, tracepointsProgXdpcapExcept, []string{"*net_device, *bpf_prog, uint"}, true},
	{"xdp_devmap_xmit", DevmapXmit, tracepointsProgXdpcapDevmap, []string{"*net_device, *net_device, int, int, int"}, false},
	{"xdp_bulk_tx", BulkTx, tracepointsProgXdpcapBulkTx, []string{"*net_device, int, int, int"}, false},
	{"xdp_cpumap_enqueue", CPUMapEnqueue, tracepointsProgXdpcapEnqueue, []string{"int, uint, uint, int"}, true},
	{"xdp_cpumap_kthread", CPUMapKthread, tracepointsProgXdpcapKthread, []string{kthreadWithVerdicts, "int, uint, uint, int"}, true},
	{"mem_connect", MemConnect, tracepointsProgXdpcapConnect, []string{"*xdp_mem_allocator, *xdp_rxq_info"}, false},
	{"mem_disconnect", MemDisconnect, tracepointsProgXdpcapDisconn, []string{"*xdp_mem_allocator"}, false},
	{"mem_return_failed", MemReturnFailed, tracepointsProgXdpcapMemfail, []string{"*xdp_mem_info, *page"}, false},
	{"bpf_xdp_link_attach_failed", AttachFailed, tracepointsProgXdpcapAttach, []string{"*char"}, false},
}

// An Absent tracepoint is not counted.
type Absent struct {
	Tracepoint string // as in /sys/kernel/tracing/events/xdp
	Reason     string
}

// notRequested is the reason of tracepoints that are omitted as the options request it: Absent does
// not list them.
const notRequested = "not requested"

// absence returns why a tracepoint is omitted; "" if it is counted.
func (p *tracepoint) absence(kernel map[string]string, o TracepointOptions) string {
	if p.event == Redirect && !o.Redirects {
		return notRequested
	}
	args, ok := kernel[p.name]
	if !ok {
		return "this kernel does not have it"
	}
	if o.Program != "" && !p.ofProgram {
		return "it does not name the program"
	}
	if !slices.Contains(p.args, args) {
		return fmt.Sprintf("xdpcap does not know its arguments (%s)", args)
	}
	return ""
}

// kernelTracepoints returns the argument lists of our tracepoints that the running kernel has.
func kernelTracepoints() (map[string]string, error) {
	spec, err := xdp.KernelTypes().Kernel()
	if err != nil {
		return nil, support.ExplainBTF("find the tracepoints in the kernel's BTF", err)
	}
	found := make(map[string]string)
	for _, p := range tracepoints {
		args, err := support.TracepointArguments(spec, p.name)
		if errors.Is(err, btf.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up tracepoint %s in the kernel's BTF: %w", p.name, err)
		}
		found[p.name] = args
	}
	return found, nil
}
