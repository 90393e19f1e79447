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
	"github.com/xdpcap/xdpcap/internal/message"
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

// A ProbeReport has the features of kernel, driver and user, and the stages whose losses the
// command drops can see.
type ProbeReport struct {
	*support.Report
	Drops support.Checks `json:"drops"`
}

// NewProbe returns the command probe.
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
			report, err := support.Probe(support.ProbeOptions{Interface: name, Ring: capture.DefaultBuffer, LeastRing: capture.MinBuffer})
			if err != nil {
				return err
			}
			frame.AddRemedies(report)
			r := &ProbeReport{report, drops.Visible(report)}
			if asJSON {
				err = writeProbeJSON(cmd.OutOrStdout(), r)
			} else {
				err = writeProbe(cmd.OutOrStdout(), r, frame.Columns(cmd.OutOrStdout()), frame.IsUTF8())
			}
			if err != nil {
				return err
			}
			return captureError(report)
		},
	}
	frame.AddFlags(cmd, "Where", frame.Flag{Name: "interface", Letter: "i", Value: (*frame.OneInterface)(&name), Complete: p.CompleteInterface,
		Help: "also look at this `interface`"})
	frame.AddFlags(cmd, "Output", frame.Flag{Name: "json", Value: &asJSON, Help: "print the report as JSON: one object"})
	return cmd
}

// captureError returns the reason why a capture would not work; nil if it would.
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

// because returns the reason and the remedy of a check.
func because(c support.Check) string {
	if c.Remedy == "" {
		return c.Reason
	}
	return c.Reason + ": " + c.Remedy
}

func writeProbeJSON(w io.Writer, r *ProbeReport) error {
	e := message.NewJSONEncoder(w)
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
	blockers []string        // the rows of checks that fail, which are printed above all sections
	reasons  map[string]bool // the words in blockers
}

// labelWidth is the width of a label, in columns.
const labelWidth = 26

// probeMarks returns the marks of answers: a tick and a cross, or ASCII characters.
func probeMarks(utf8 bool) map[support.Answer]string {
	if utf8 {
		return map[support.Answer]string{support.Yes: "✓", support.No: "✗", support.Unknown: "?"}
	}
	return map[support.Answer]string{support.Yes: "+", support.No: "x", support.Unknown: "?"}
}

func (t *probeTable) section(title string) { t.WriteString("\n" + title + "\n") }

// fact writes a row without a mark.
func (t *probeTable) fact(label, value string) { t.row(" ", label, value) }

// factIf writes a row with the value if it is known, else with the word otherwise.
func (t *probeTable) factIf(known bool, label string, value func() string, otherwise string) {
	if known {
		otherwise = value()
	}
	t.fact(label, otherwise)
}

// check writes a row for a check. If it fails, its words are in blockers, the same words only once.
func (t *probeTable) check(label string, c support.Check) {
	words := because(c)
	if c.Answer == support.No {
		if !t.reasons[words] {
			t.reasons[words] = true
			t.blockers = append(t.blockers, t.folded(t.marks[c.Answer], label, words))
		}
		words = "see above"
	}
	t.row(t.marks[c.Answer], label, words)
}

// A labelledKey is the key of a check, with its label in the table.
type labelledKey struct{ label, key string }

func (t *probeTable) checks(of support.Checks, keys []labelledKey) {
	for _, k := range keys {
		t.check(k.label, of.Get(k.key))
	}
}

func (t *probeTable) row(mark, label, words string) { t.WriteString(t.folded(mark, label, words)) }

func (t *probeTable) folded(mark, label, words string) string {
	row := fmt.Sprintf("  %s %-*s%s", mark, labelWidth, label, message.Escape(words))
	return strings.TrimRight(frame.Fold(row, t.width, true), " ") + "\n"
}

func writeProbe(w io.Writer, r *ProbeReport, width int, utf8 bool) error {
	t := &probeTable{width: width, marks: probeMarks(utf8), reasons: make(map[string]bool)}
	t.section("xdpcap")
	t.checks(r.Features, []labelledKey{
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
	})
	for _, transport := range capture.Transports() {
		t.check("transport "+transport.String(), r.Features.Get(support.TransportPrefix+transport.String()))
	}
	t.section("lost packets that drops sees")
	t.checks(r.Drops, []labelledKey{
		{"losses at the card", "card"},
		{"losses at XDP", "xdp"},
		{"losses in stack, sockets", "stack"},
		{"losses at AF_XDP sockets", "af_xdp"},
		{"losses on the way out", "egress"},
	})
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
	t.checks(k.Checks, []labelledKey{
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
	})
}

func writeProbePrivileges(t *probeTable, p support.Privileges) {
	t.section("privileges")
	t.fact("capabilities held", cmp.Or(strings.Join(p.Held, " "), "none"))
	t.fact("missing", cmp.Or(strings.Join(p.Missing, " "), "none"))
	t.factIf(p.Memlock != nil, "locked memory", func() string { return fmt.Sprintf("%d KiB", *p.Memlock>>10) }, "no limit")
	t.factIf(p.Paranoid != nil, "perf_event_paranoid", func() string { return fmt.Sprint(*p.Paranoid) }, "unknown")
	t.factIf(p.Landlock > 0, "Landlock", func() string { return fmt.Sprintf("ABI %d", p.Landlock) },
		"none; captures give up their capabilities, but not the right to write files")
	if p.UserNamespace {
		t.fact("user namespace", "capabilities in it do not count for BPF")
	}
}

func writeProbeInterface(t *probeTable, ifi *support.Interface) {
	t.section("interface " + message.Escape(ifi.Name))
	t.fact("driver", cmp.Or(ifi.Driver, "-"))
	t.check("native XDP", ifi.Native)
	t.fact("MTU", fmt.Sprint(ifi.MTU))
	t.check("frags", ifi.Frags)
	t.fact("LRO", onOff(ifi.LRO, "; packets are joined before XDP: ethtool -K "+message.ShellWord(ifi.Name)+" lro off"))
	tags := "; tags may be taken off before XDP: ethtool -K " + message.ShellWord(ifi.Name) + " rxvlan off"
	if slices.Contains(ifi.Kfuncs, support.MetadataVLAN) {
		tags = "; tags may be taken off before XDP, and a capture puts them back"
	}
	t.fact("rx VLAN offload", onOff(ifi.VLAN, tags))
	t.fact("rx VLAN filter", onOff(ifi.Filter, "; frames of VLANs without an interface here are dropped before XDP: -P takes them, too"))
	t.factIf(ifi.Queues > 0, "rx queues", func() string { return fmt.Sprint(ifi.Queues) }, "unknown")
	t.factIf(ifi.Kfuncs != nil, "metadata kfuncs", func() string { return cmp.Or(strings.Join(ifi.Kfuncs, " "), "none") },
		"unknown; the kernel reports this since 6.7")
	t.factIf(ifi.Clock != nil, "PTP clock", func() string { return *ifi.Clock }, "none, or the driver does not report one")
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
