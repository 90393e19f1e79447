package meter

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type record -type event -type key -type count -type loss tracepoints ../../bpf/tracepoints.c

// An Event is a kind of event that a tracepoint reports. Some events have different tracepoints in
// different kernel versions.
type Event uint32

const (
	Redirect        = Event(tracepointsEventREDIRECT)          // a redirect was accepted
	RedirectErr     = Event(tracepointsEventREDIRECT_ERR)      // a redirect failed
	Exception       = Event(tracepointsEventEXCEPTION)         // the verdict aborted, an unknown verdict, or a failed tx
	DevmapXmit      = Event(tracepointsEventDEVMAP_XMIT)       // a bulk of redirected packets was sent
	BulkTx          = Event(tracepointsEventBULK_TX)           // a bulk of packets of the verdict tx was sent
	CPUMapEnqueue   = Event(tracepointsEventCPUMAP_ENQUEUE)    // a bulk of packets was queued for another CPU
	CPUMapKthread   = Event(tracepointsEventCPUMAP_KTHREAD)    // that CPU took a bulk from its queue
	MemConnect      = Event(tracepointsEventMEM_CONNECT)       // a receive queue got a page pool
	MemDisconnect   = Event(tracepointsEventMEM_DISCONNECT)    // a page pool has gone
	MemReturnFailed = Event(tracepointsEventMEM_RETURN_FAILED) // a page came back after its pool had gone
	AttachFailed    = Event(tracepointsEventATTACH_FAILED)     // a program could not be attached by a bpf_link
)

// TracepointOptions define which events to count. The zero value counts all events of the machine,
// in all its network namespaces, except for successful redirects.
type TracepointOptions struct {
	// Interface restricts the events to one interface in the calling thread's network namespace;
	// nil = all. Some tracepoints do not name an interface: events of cpumaps count if the
	// interface's program, at Open or at the last Follow, has the map; events of memory models
	// count if the model was connected to the interface since Open; failed attachments count if
	// they are in the same namespace.
	Interface *xdp.Interface

	// Namespace restricts the events to the interfaces of the calling thread's network namespace,
	// except those of tracepoints that do not name an interface.
	Namespace bool

	// Program restricts the events to those of one XDP program, by its name or id; "" = all.
	// Tracepoints that name neither a program nor a map are then omitted, and listed by Absent.
	Program string

	// Redirects counts successful redirects, too: one event for every packet.
	Redirects bool

	// Netns counts interfaces of different network namespaces separately: Case.Netns.
	Netns bool

	// Record sends single events to Next.
	Record bool
}

// Tracepoints counts the events of the kernel's xdp:* tracepoints.
type Tracepoints struct {
	coll   *ebpf.Collection
	links  []link.Link // references to them: the garbage collector closes links without any
	events []Event
	absent []Absent
	reader *recordReader // nil without TracepointOptions.Record
	began  time.Time
	stop   sync.Once

	ofInterface bool        // TracepointOptions.Interface is not nil
	selector    string      // TracepointOptions.Program
	program     xdp.Program // the program that is counted now, zero = all
	places      []*place

	mu     sync.Mutex // guards the fields below, and the table while entries are evicted
	aging  Aging[tracepointsKey]
	former map[Case]EventCount // EventCounts.Former
}

// OpenTracepoints attaches to all tracepoints that this kernel has. It needs CAP_BPF and
// CAP_PERFMON, and a kernel with BTF.
func OpenTracepoints(o TracepointOptions) (*Tracepoints, error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	spec, err := loadTracepoints()
	if err != nil {
		return nil, err
	}
	t := &Tracepoints{
		aging:       Aging[tracepointsKey]{Keep: keptCases},
		former:      make(map[Case]EventCount),
		ofInterface: o.Interface != nil,
		selector:    o.Program,
	}
	if o.Program != "" {
		if t.program, err = findProgram(o); err != nil {
			return nil, err
		}
	}
	types := xdp.KernelTypes() // kept from here to the load, so that they are read once
	chosen, err := t.choose(spec, o)
	if err != nil {
		return nil, err
	}
	if err := t.restrict(spec, o); err != nil {
		return nil, err
	}
	if t.coll, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types}); err != nil {
		return nil, support.ExplainLoad("load the programs for the xdp tracepoints", err)
	}
	if err := t.begin(chosen, o); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// choose returns the tracepoints to count, and removes the programs of all others from spec.
func (t *Tracepoints) choose(spec *ebpf.CollectionSpec, o TracepointOptions) ([]tracepoint, error) {
	kernel, err := kernelTracepoints()
	if err != nil {
		return nil, err
	}
	var chosen []tracepoint
	for _, p := range tracepoints {
		reason := p.absence(kernel, o)
		if reason == "" {
			chosen = append(chosen, p)
			if !slices.Contains(t.events, p.event) {
				t.events = append(t.events, p.event)
			}
			continue
		}
		delete(spec.Programs, p.program)
		if reason != notRequested {
			t.absent = append(t.absent, Absent{Tracepoint: p.name, Reason: reason})
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("this kernel has none of the xdp tracepoints: it needs CONFIG_TRACEPOINTS and BTF")
	}
	if err := spec.Variables[tracepointsVarKthreadVerdicts].Set(kernel["xdp_cpumap_kthread"] == kthreadWithVerdicts); err != nil {
		return nil, err
	}
	if !o.Record {
		spec.Maps[tracepointsMapRecords].MaxEntries = uint32(os.Getpagesize())
	}
	return chosen, nil
}

// restrict sets the variables that the programs filter by.
func (t *Tracepoints) restrict(spec *ebpf.CollectionSpec, o TracepointOptions) error {
	only := o.Interface
	if o.Namespace {
		only = new(xdp.Interface) // the whole namespace: see RestrictTo
	}
	if only != nil {
		if err := RestrictTo(*only, spec); err != nil {
			return err
		}
	}
	return attach.Set(spec, map[string]any{
		tracepointsVarOnlyProgram:  t.program.ID,
		tracepointsVarRecordEvents: o.Record,
		tracepointsVarToldNetns:    o.Netns,
	})
}

// begin attaches the programs as its last step, when everything that handles events is ready.
func (t *Tracepoints) begin(chosen []tracepoint, o TracepointOptions) (err error) {
	if err := t.findPlaces(o); err != nil {
		return err
	}
	if err := t.allowMaps(); err != nil {
		return err
	}
	if o.Record {
		if t.reader, err = newRecordReader(t.coll.Maps[tracepointsMapRecords]); err != nil {
			return err
		}
	}
	for _, p := range chosen {
		l, err := link.AttachTracing(link.TracingOptions{Program: t.coll.Programs[p.program]})
		if err != nil {
			return support.ExplainLoad("attach to the tracepoint "+p.name, err)
		}
		t.links = append(t.links, l)
	}
	t.began = time.Now()
	return nil
}

// Began returns when counting began, by the clocks of time.Now.
func (t *Tracepoints) Began() time.Time { return t.began }

// Program returns the program that is counted now; zero if all are.
func (t *Tracepoints) Program() xdp.Program { return t.program }

// Events returns the events that can occur on this kernel, in the order of their declaration.
func (t *Tracepoints) Events() []Event { return slices.Sorted(slices.Values(t.events)) }

// Absent returns the tracepoints that are not counted, and why.
func (t *Tracepoints) Absent() []Absent { return t.absent }

// Close detaches from the tracepoints. A waiting Next returns.
func (t *Tracepoints) Close() error {
	errs := []error{t.Stop()}
	if t.reader != nil {
		errs = append(errs, t.reader.Close())
	}
	for _, p := range t.places {
		p.watch.Close()
	}
	if t.coll != nil {
		t.coll.Close()
	}
	return errors.Join(errs...)
}
