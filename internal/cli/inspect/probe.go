package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/support"
)

const probeHelp = `probe prints what this kernel, this user and, with -i, this interface allow. What does not work comes
first, with the reason and the remedy; then all of it, with a tick for what works, a cross, or a ?
for what is unknown. It tries only what disturbs nobody: it loads programs, but attaches nothing to
an interface, and leaves nothing behind.

The exit status is 0 if a capture would work, else 1. With -i that means a capture on this
interface, which may trace the program that runs there.

--json prints one object. A check is an object {"answer": "yes", "no" or "unknown", "reason",
"remedy"}; reason and remedy are missing where there is nothing to say:

  can_capture   true or false, as the exit status
  kernel        release, machine; checks: btf, jit, xdp, xdp_frags, isa_v3, perf_event_array,
                perf_event, shared_rings, lru_hash, prog_array, xdp_helpers, fentry, fexit,
                trampolines, tp_btf, tracing_helpers, egress
  privileges    held, missing: capabilities; memlock_bytes: null = no limit; perf_event_paranoid:
                null = unknown; landlock_abi: 0 = the kernel has none; user_namespace
  interface     null without -i; name, driver, type, up, mtu, rx_queues (0 = unknown); the checks
                native_xdp, xdp_frags; lro, rx_vlan_offload: null = unknown; metadata_kfuncs: list
                of timestamp, hash, vlan_tag, null = unknown; ptp_clock: the card's, /dev/ptp0,
                null = none; program: null = none, else id, name, mode and the check traceable
  features      checks: capture_native, capture_generic, capture_beside_program, hook,
                capture_tc, capture_sent, filter, sample_flows, stats_count, latency, monitor,
                transport_perf, transport_ring
  drops         whether drops sees lost packets, and by what; checks: card, xdp, stack (with
                sockets), af_xdp, egress (queues on the way out)`

// A ProbeReport is what kernel, driver and user allow, and which stages of drops are seen.
type ProbeReport struct {
	*support.Report
	Drops support.Checks `json:"drops"`
}

// NewProbe makes the command.
func NewProbe(p *frame.Process) *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "probe [-i IF] [--json]",
		Short:   "Show what this kernel, driver and user can do, and what is missing",
		Long:    probeHelp,
		Example: "  xdpcap probe\n  xdpcap probe -i eth0 --json | jq .features",
		Args:    frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			told, err := support.Probe(support.ProbeOptions{Interface: name, Ring: capture.DefaultBuffer, LeastRing: capture.MinBuffer})
			if err != nil {
				return err
			}
			frame.AddRemedies(told)
			r := &ProbeReport{told, drops.Visible(told)}
			if asJSON {
				err = writeProbeJSON(cmd.OutOrStdout(), r)
			} else {
				err = writeProbe(cmd.OutOrStdout(), r, frame.Columns(cmd.OutOrStdout()), frame.IsUTF8())
			}
			if err != nil {
				return err
			}
			return captureError(told)
		},
	}
	frame.AddFlags(cmd, "Where", frame.Flag{Name: "interface", Letter: "i", Value: (*frame.OneInterface)(&name), Complete: p.CompleteInterface,
		Help: "also look at this `interface`"})
	frame.AddFlags(cmd, "Output", frame.Flag{Name: "json", Value: &asJSON, Help: "print the report as JSON: one object"})
	return cmd
}

// captureError is nil if a capture would work, else an error that says why not.
func captureError(r *support.Report) error {
	if r.CanCapture {
		return nil
	}
	key, where := support.FeatureGeneric, "here"
	if r.Interface != nil {
		where = "on " + r.Interface.Name
		if r.Interface.Program != nil {
			key = support.FeatureBeside
			where += ", beside its program"
		}
	}
	return errors.New("capture would not work " + where + ": " + because(r.Features.Get(key)))
}

func because(c support.Check) string {
	if c.Remedy == "" {
		return c.Reason
	}
	return c.Reason + ": " + c.Remedy
}

func writeProbeJSON(w io.Writer, r *ProbeReport) error {
	e := escape.NewJSONEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// A probeTable has sections of rows: a mark for the answer, a label, and words that are folded in a
// column of their own.
type probeTable struct {
	strings.Builder
	width    int // columns
	marks    map[support.Answer]string
	blockers []string        // the rows of what does not work
	said     map[string]bool // the words among them
}

// probeLabel is the width of a label.
const probeLabel = 26

// probeMarks are the marks of answers: a tick and a cross, or ASCII where the locale has neither.
func probeMarks(utf8 bool) map[support.Answer]string {
	if utf8 {
		return map[support.Answer]string{support.Yes: "✓", support.No: "✗", support.Unknown: "?"}
	}
	return map[support.Answer]string{support.Yes: "+", support.No: "x", support.Unknown: "?"}
}

func (t *probeTable) section(title string) { t.WriteString("\n" + title + "\n") }

func (t *probeTable) fact(label, value string) {
	t.row(" ", label, value)
}

// check writes a row for a check. The words about what does not work stand once, above all
// sections.
func (t *probeTable) check(label string, c support.Check) {
	words := because(c)
	if c.Answer == support.No {
		if !t.said[words] {
			t.said[words] = true
			t.blockers = append(t.blockers, t.folded(t.marks[c.Answer], label, words))
		}
		words = "see above"
	}
	t.row(t.marks[c.Answer], label, words)
}

func (t *probeTable) row(mark, label, words string) { t.WriteString(t.folded(mark, label, words)) }

func (t *probeTable) folded(mark, label, words string) string {
	row := fmt.Sprintf("  %s %-*s%s", mark, probeLabel, label, escape.Text(words))
	return strings.TrimRight(frame.Fold(row, t.width, true), " ") + "\n"
}

func writeProbe(w io.Writer, r *ProbeReport, width int, utf8 bool) error {
	t := &probeTable{width: width, marks: probeMarks(utf8), said: make(map[string]bool)}
	t.section("xdpcap")
	for _, f := range []struct{ label, key string }{
		{"capture, native", support.FeatureNative},
		{"capture, generic", support.FeatureGeneric},
		{"capture beside a program", support.FeatureBeside},
		{"capture from --hook", support.FeatureHook},
		{"capture --at tc", support.FeatureTC},
		{"capture of what is sent", support.FeatureSent},
		{"filters in the kernel", support.FeatureFilter},
		{"sampling by flow", support.FeatureFlows},
		{"stats, count", support.FeatureMeters},
		{"latency", support.FeatureLatency},
		{"monitor", support.FeatureMonitor},
	} {
		t.check(f.label, r.Features.Get(f.key))
	}
	for _, transport := range capture.Transports() {
		t.check("transport "+transport.String(), r.Features.Get(support.TransportPrefix+transport.String()))
	}
	t.section("lost packets that drops sees")
	for _, c := range []struct{ label, key string }{
		{"losses at the card", "card"},
		{"losses at XDP", "xdp"},
		{"losses in stack, sockets", "stack"},
		{"losses at AF_XDP sockets", "af_xdp"},
		{"losses on the way out", "egress"},
	} {
		t.check(c.label, r.Drops.Get(c.key))
	}
	if r.Interface != nil {
		writeProbeInterface(t, r.Interface)
	}
	writeProbePrivileges(t, r.Privileges)
	writeProbeKernel(t, r.Kernel)
	begin := "nothing is missing here\n"
	if t.blockers != nil {
		begin = "does not work here\n" + strings.Join(t.blockers, "")
	}
	_, err := io.WriteString(w, begin+t.String())
	return err
}

func writeProbeKernel(t *probeTable, k support.Kernel) {
	t.section("kernel")
	t.fact("version", k.Release+" "+k.Machine)
	for _, c := range []struct{ label, key string }{
		{"BTF", "btf"},
		{"JIT", "jit"},
		{"XDP programs", "xdp"},
		{"XDP frags", "xdp_frags"},
		{"helpers in XDP", "xdp_helpers"},
		{"instruction set v3", "isa_v3"},
		{"perf event array", "perf_event_array"},
		{"perf events", "perf_event"},
		{"shared memory", "shared_rings"},
		{"LRU hash", "lru_hash"},
		{"program array", "prog_array"},
		{"fentry programs", "fentry"},
		{"fexit programs", "fexit"},
		{"trampolines", "trampolines"},
		{"tp_btf programs", "tp_btf"},
		{"helpers in tracing", "tracing_helpers"},
		{"programs at egress", "egress"},
	} {
		t.check(c.label, k.Checks.Get(c.key))
	}
}

func writeProbePrivileges(t *probeTable, p support.Privileges) {
	t.section("privileges")
	t.fact("capabilities held", cmp.Or(strings.Join(p.Held, " "), "none"))
	t.fact("missing", cmp.Or(strings.Join(p.Missing, " "), "none"))
	memlock := "no limit"
	if p.Memlock != nil {
		memlock = fmt.Sprintf("%d KiB", *p.Memlock>>10)
	}
	t.fact("locked memory", memlock)
	paranoid := "unknown"
	if p.Paranoid != nil {
		paranoid = fmt.Sprint(*p.Paranoid)
	}
	t.fact("perf_event_paranoid", paranoid)
	landlock := "none; captures give up their capabilities, but not the right to write files"
	if p.Landlock > 0 {
		landlock = fmt.Sprintf("ABI %d", p.Landlock)
	}
	t.fact("Landlock", landlock)
	if p.UserNamespace {
		t.fact("user namespace", "capabilities in it do not count for BPF")
	}
}

func writeProbeInterface(t *probeTable, ifi *support.Interface) {
	t.section("interface " + escape.Text(ifi.Name))
	t.fact("driver", cmp.Or(ifi.Driver, "-"))
	t.check("native XDP", ifi.Native)
	t.fact("MTU", fmt.Sprint(ifi.MTU))
	t.check("frags", ifi.Frags)
	t.fact("LRO", onOff(ifi.LRO, "; packets are joined before XDP: ethtool -K "+escape.ShellWord(ifi.Name)+" lro off"))
	tags := "; tags may be taken off before XDP: ethtool -K " + escape.ShellWord(ifi.Name) + " rxvlan off"
	if slices.Contains(ifi.Kfuncs, support.MetadataVLAN) {
		tags = "; tags may be taken off before XDP, and a capture puts them back"
	}
	t.fact("rx VLAN offload", onOff(ifi.VLAN, tags))
	t.fact("rx VLAN filter", onOff(ifi.Filter, "; frames of VLANs without an interface here are dropped before XDP: -P takes them, too"))
	queues := "unknown"
	if ifi.Queues > 0 {
		queues = fmt.Sprint(ifi.Queues)
	}
	t.fact("rx queues", queues)
	kfuncs := cmp.Or(strings.Join(ifi.Kfuncs, " "), "none")
	if ifi.Kfuncs == nil {
		kfuncs = "unknown; the kernel reports this since 6.7"
	}
	t.fact("metadata kfuncs", kfuncs)
	clock := "none, or the driver does not report one"
	if ifi.Clock != nil {
		clock = *ifi.Clock
	}
	t.fact("PTP clock", clock)
	if ifi.Program == nil {
		t.fact("program", "none")
		return
	}
	t.fact("program", fmt.Sprintf("%s (id %d), %s", cmp.Or(ifi.Program.Name, "-"), ifi.Program.ID, ifi.Program.Mode))
	t.check("traceable", ifi.Program.Traceable)
}

func onOff(on *bool, note string) string {
	switch {
	case on == nil:
		return "unknown"
	case *on:
		return "on" + note
	}
	return "off"
}
