package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/set"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What can be asked of the sampling programs. Each part that is asked for adds instructions.
// Tracers take long to verify on an emulated machine, so that only some of these are loaded as
// tracers.
var configurations = []struct {
	name    string
	traced  bool
	options Options
}{
	{"every packet", true, Options{}},
	{"heads", false, Options{SnapLen: 96}},
	{"headers", true, Options{HeadersOnly: true, Payload: 64}},
	{"filter", true, Options{Filter: "tcp port 443"}},
	{"filter with sets", true, Options{Filter: "host in @any and port in @any or net in @any"}},
	{"filter behind VLAN tags", false, Options{Filter: "tcp port 443", VLANAware: true}},
	{"sample", false, Options{Sample: 10}},
	{"sample flows", false, Options{SampleFlows: 10}},
	{"first", false, Options{First: 10}},
	{"max rate", false, Options{MaxRate: 1000}},
	{"host_lowprec", false, Options{Stamp: HostLowprecStamp}},
	{"all of these", true, Options{HeadersOnly: true, SnapLen: 96, Filter: "tcp port 443", VLANAware: true, Sample: 10, SampleFlows: 10, First: 10, MaxRate: 1000}},
}

// What can be asked of tracers where the entries wait for their exits.
var waitConfigurations = []struct {
	name    string
	hooks   []Hook
	options Options
}{
	{"slow packets", []Hook{Entry}, Options{SlowerThan: 1}},
	{"verdict, filter", []Hook{Entry, Exit}, Options{Verdicts: []Verdict{Drop}, Filter: "tcp port 443"}},
	{"all of these", []Hook{Entry, Exit}, Options{Verdicts: []Verdict{Drop}, SlowerThan: 1, HeadersOnly: true, SnapLen: 96, Filter: "tcp port 443", VLANAware: true, Sample: 10, SampleFlows: 10, First: 10, MaxRate: 1000}},
}

// What can be asked of the programs for packets that get lost: nothing, and all.
var lossConfigurations = []struct {
	name    string
	options Options
}{
	{"every packet", Options{StackDrops: true}},
	{"all of these", Options{StackDrops: true, HeadersOnly: true, SnapLen: 96, Filter: "tcp port 443", VLANAware: true, Sample: 10, SampleFlows: 10, First: 10, MaxRate: 1000}},
}

// The kernel's verifier walks through every path of a program. How many instructions that takes
// must not grow unnoticed: a program gets slower, and an older kernel may refuse it.
func TestInstructions(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	transports := []Transport{TransportPerf, TransportRing}
	table := make(instructionTable)
	for _, transport := range transports {
		table.addAll(t, pair, transport, nil)
		table.addLosses(t, pair, transport)
	}
	if xdp.CheckTracing() == nil && (testnet.Emulated() || testnet.ProbeFentry() == nil) {
		target, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Rewriting)
		must(t, err)
		defer target.Close()
		for i, transport := range transports {
			if !testnet.Shared(i) {
				continue
			}
			table.addAll(t, pair, transport, []Hook{Entry, Exit})
			table.addAll(t, pair, transport, []Hook{Exit})
			table.addWaits(t, pair, transport)
			table.addLosses(t, pair, transport)
		}
		table.addOthers(t, transports)
	}

	path := "testdata/instructions-" + release() + ".txt"
	golden, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s has nothing to compare these with:\n%s", path, table)
		return
	}
	must(t, err)
	allowed := make(instructionTable)
	for line := range strings.Lines(string(golden)) {
		name, number, _ := strings.Cut(line, ": ")
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
		must(t, err)
		allowed[name] = uint32(n)
	}
	for name, n := range table {
		if most := allowed[name] * 105 / 100; n > most {
			t.Errorf("%s: %d instructions, %s allows %d", name, n, path, most)
		}
	}
	for name := range allowed {
		if _, ok := table[name]; !ok {
			t.Errorf("%s: no such program, but %s has it", name, path)
		}
	}
	if t.Failed() {
		t.Logf("if that is to be, write this into capture/%s:\n%s", path, table)
	}
}

// release is the kernel's, up to the second number: 6.1, or 6.1-rt for a real-time kernel, where
// the programs have some instructions more. If the architecture is not amd64, its name follows: on
// arm64 the ring's programs and the kernel's structures differ.
func release() string {
	fields := strings.Fields(machine.Kernel())
	numbers := strings.SplitN(fields[1], ".", 3)
	suffix := ""
	if strings.Contains(fields[1], "-rt-") {
		suffix = "-rt"
	}
	if runtime.GOARCH != "amd64" {
		suffix += "-" + runtime.GOARCH
	}
	return numbers[0] + "." + numbers[1] + suffix
}

// An instructionTable has the number of verified instructions of programs, by their names.
type instructionTable map[string]uint32

func (table instructionTable) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(&b, "%s: %d\n", name, table[name])
	}
	return b.String()
}

// addAll adds the programs of every configuration for a transport, at these hooks of the pair's
// interface; nil = at its XDP hook.
func (table instructionTable) addAll(t *testing.T, pair *testnet.Pair, transport Transport, hooks []Hook) {
	t.Helper()
	empty, err := set.New("any", os.DevNull, set.OpenFile)
	must(t, err)
	defer empty.Close()
	sets := map[string]filter.Set{"any": empty}
	for _, c := range configurations {
		if hooks != nil && !c.traced {
			continue
		}
		o := c.options
		o.FilterSets = sets
		o.VLANRestore = VLANRestoreOff
		o.Interfaces, o.Hooks, o.Transport = []string{pair.RxName}, hooks, transport
		withHooks(t, pair, o, func(h probe.Hook) {
			switch h := h.(type) {
			case *probe.XDPHook:
				table.add(t, fmt.Sprintf("%v, xdp, %s", transport, c.name), h.Programs[0])
			case *probe.TraceHook:
				table.add(t, fmt.Sprintf("%v, fentry for %v, %s", transport, hooks, c.name), h.Tracers()[1])
				table.add(t, fmt.Sprintf("%v, fexit for %v, %s", transport, hooks, c.name), h.Tracers()[0])
			}
		})
	}
}

// addOthers adds the programs for a function of an XDP program, and for a program at tc.
func (table instructionTable) addOthers(t *testing.T, transports []Transport) {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	function, err := testnet.AttachTarget(pair.Rx, pair.RxName, testnet.Functions)
	must(t, err)
	defer function.Close()
	atTC, err := testnet.NewTarget(testnet.AtTC)
	must(t, err)
	defer atTC.Close()
	must(t, atTC.AttachAtTC(pair.Rx, pair.RxName, false, true))
	for i, transport := range transports {
		if !testnet.Shared(i) {
			continue
		}
		for _, c := range []struct{ name, target string }{{"function", "functions_target/judge_packet"}, {"tc", "rewriting_tc_target"}} {
			for _, all := range []bool{false, true} {
				o := configurations[0].options
				name := configurations[0].name
				if all {
					o, name = configurations[len(configurations)-1].options, configurations[len(configurations)-1].name
				}
				o.Interfaces, o.Hooks, o.Transport, o.Targets = []string{pair.RxName}, []Hook{Exit}, transport, []string{c.target}
				o.VLANRestore = VLANRestoreOff
				withHooks(t, pair, o, func(h probe.Hook) {
					tracers := h.(*probe.TraceHook).Tracers()
					table.add(t, fmt.Sprintf("%v, fentry of %s, %s", transport, c.name, name), tracers[1])
					table.add(t, fmt.Sprintf("%v, fexit of %s, %s", transport, c.name, name), tracers[0])
				})
			}
		}
	}
}

// addWaits adds the tracers where the entries wait for their exits.
func (table instructionTable) addWaits(t *testing.T, pair *testnet.Pair, transport Transport) {
	t.Helper()
	for _, c := range waitConfigurations {
		o := c.options
		o.Interfaces, o.Hooks, o.Transport = []string{pair.RxName}, c.hooks, transport
		withHooks(t, pair, o, func(h probe.Hook) {
			tracers := h.(*probe.TraceHook).Tracers()
			table.add(t, fmt.Sprintf("%v, hold for %v, %s", transport, c.hooks, c.name), tracers[1])
			table.add(t, fmt.Sprintf("%v, release for %v, %s", transport, c.hooks, c.name), tracers[0])
		})
	}
}

// addLosses adds the programs for packets that get lost: where the interface runs no XDP program,
// those of the stack, else those of failed redirects.
func (table instructionTable) addLosses(t *testing.T, pair *testnet.Pair, transport Transport) {
	t.Helper()
	for _, c := range lossConfigurations {
		o := c.options
		o.Interfaces, o.Transport = []string{pair.RxName}, transport
		runsProgram := false
		withHooks(t, pair, o, func(h probe.Hook) {
			switch h := h.(type) {
			case *probe.RedirectHook:
				runsProgram = true
				table.add(t, fmt.Sprintf("%v, redirect, %s", transport, c.name), h.Programs[0])
				table.add(t, fmt.Sprintf("%v, generic redirect, %s", transport, c.name), h.Programs[1])
			case *probe.DropHook:
				if !runsProgram {
					table.add(t, fmt.Sprintf("%v, drop, %s", transport, c.name), h.Programs[0])
				}
			}
		})
	}
}

func (table instructionTable) add(t *testing.T, name string, p *ebpf.Program) {
	t.Helper()
	info, err := p.Info()
	must(t, err)
	n, ok := info.VerifiedInstructions()
	if !ok {
		t.Fatalf("%s: the kernel does not tell the number of instructions", name)
	}
	table[name] = n
}

// withHooks calls do for each hook of a session whose programs are loaded, and not attached. All of
// it is released afterwards, since the maps take much memory.
func withHooks(t *testing.T, pair *testnet.Pair, o Options, do func(probe.Hook)) {
	t.Helper()
	err := pair.Rx.Do(func() error {
		o, err := o.withDefaults()
		if err != nil {
			return err
		}
		points, err := o.probe().Points()
		if err != nil {
			return err
		}
		hooks, err := o.probe().Choose(points)
		defer probe.CloseAll(hooks)
		if err != nil {
			return err
		}
		r := probe.NewRoster(hooks, 0, nil)
		k, err := probe.New(o.probe(), r, ring.New(o.rings()))
		if err != nil {
			return err
		}
		defer k.Close()
		if err := k.LoadAll(hooks); err != nil {
			return err
		}
		for _, h := range hooks {
			do(h)
		}
		return nil
	})
	must(t, err)
}
