package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A hook is where on an interface a session samples packets. Each kind is in its own file,
// hook_NAME.go, and Options.hooks chooses among them. Each method is called once, and in this
// order. There are four exceptions: sources may be called at any time. While the hook is attached,
// check is called again and again. Another goroutine may call check and detach, but only one at a
// time. After an error, only detach and close are called.
type hook interface {
	// sources returns the hook's sources, in the order in which a packet passes them. Their modes
	// and programs are known once the hook is attached.
	sources() []Source
	// load loads the programs. first is the index of the hook's first source in the session, index
	// the hook's own.
	load(k *sampler, first, index uint32) error
	// attach starts sampling.
	attach() error
	// check returns nil, or an error that says why the hook no longer sees its packets: an
	// ErrInterfaceGone, or what happened to the hook.
	check() error
	// detach stops sampling. It also works after attach has failed halfway.
	detach() error
	// close releases the programs.
	close() error
}

// attachHooks starts sampling at all hooks. After an error some of them are attached.
func attachHooks(hooks []hook) error {
	for _, h := range hooks {
		if err := h.attach(); err != nil {
			return err
		}
	}
	return nil
}

// detachHooks stops sampling, in the opposite order.
func detachHooks(hooks []hook) error {
	var errs []error
	for _, h := range slices.Backward(hooks) {
		errs = append(errs, h.detach())
	}
	return errors.Join(errs...)
}

// endHooks detaches hooks, and returns when none of their programs runs.
func (k *sampler) endHooks(hooks []hook) error {
	return errors.Join(detachHooks(hooks), k.barrier.Wait())
}

func closeHooks(hooks []hook) error {
	var errs []error
	for _, h := range hooks {
		errs = append(errs, h.close())
	}
	return errors.Join(errs...)
}

// An interfaceHook is what the hooks at an interface have in common: programs that are attached
// together, and one source.
type interfaceHook struct {
	ifi      xdp.Interface
	filter   attach.Filter
	source   Source
	programs []*ebpf.Program
	attached *attach.Attachment // nil = not attached
}

func newInterfaceHook(ifi xdp.Interface, f attach.Filter, at Hook) interfaceHook {
	return interfaceHook{ifi: ifi, filter: f, source: newSource(ifi, at)}
}

func (h *interfaceHook) sources() []Source { return []Source{h.source} }

// add loads a program. tried says in an error what it is for.
func (h *interfaceHook) add(k *sampler, tried string, l loading) error {
	l.filter = h.filter
	p, err := k.load(l)
	if err != nil {
		return support.ExplainLoad(tried, err)
	}
	return h.take(p)
}

// take adds a loaded program. The first one is the one that the source names.
func (h *interfaceHook) take(p *ebpf.Program) (err error) {
	if h.programs = append(h.programs, p); len(h.programs) == 1 {
		h.source.Sampler, err = identify(p)
	}
	return err
}

func (h *interfaceHook) check() error { return h.attached.Check() }

func (h *interfaceHook) detach() error { return h.attached.Close() }

func (h *interfaceHook) close() error { return closePrograms(h.programs...) }

// identify asks the kernel for the id and the name of a program.
func identify(p *ebpf.Program) (Program, error) {
	identity, err := xdp.Identify(p)
	if err != nil {
		return Program{}, fmt.Errorf("ask for the sampling program's id: %w", err)
	}
	return identity, nil
}

func closePrograms(programs ...*ebpf.Program) error {
	var errs []error
	for _, p := range programs {
		errs = append(errs, p.Close()) // Close accepts a nil program
	}
	return errors.Join(errs...)
}

// prepareSlots makes a hook's slots ready for another program after the last one there was
// detached: packets that were in a traced program then have left no decision behind, packets that
// it lost are missing before none of the next one's, and the ids of that begin where its own ended,
// although a traced program and one of ours count them differently.
func (k *sampler) prepareSlots(number int) error {
	seen := make([]uint64, ebpf.MustPossibleCPU())
	for slot := number * k.roster.perHook; slot < (number+1)*k.roster.perHook; slot++ {
		perCPU, err := k.perCPU(slot)
		if err != nil {
			return err
		}
		lost := make([]uint64, len(perCPU))
		for cpu := range perCPU {
			lost[cpu], seen[cpu] = perCPU[cpu].Lost, max(seen[cpu], perCPU[cpu].Seen)
		}
		k.roster.noteLost(slot, lost)
	}
	var perCPU []kernel.SamplerPassage
	if err := k.maps[kernel.SamplerMapPassages].Lookup(uint32(number), &perCPU); err != nil {
		return fmt.Errorf("read what the tracers note: %w", err)
	}
	for cpu := range perCPU {
		perCPU[cpu].Decision, perCPU[cpu].Packets = 0, max(perCPU[cpu].Packets, seen[cpu])
	}
	if err := k.maps[kernel.SamplerMapPassages].Put(uint32(number), perCPU); err != nil {
		return fmt.Errorf("clear what the tracers note: %w", err)
	}
	return nil
}

// ways says how packets of some sources are captured, as lists of labels and modes.
func (r *roster) ways(sources []int) string {
	var ways []string
	for _, i := range sources {
		src := r.source(i)
		way := src.Label()
		if src.Hook == XDP {
			way = fmt.Sprintf("XDP %v", src.Mode)
		}
		ways = append(ways, way)
	}
	return strings.Join(ways, ", ")
}
