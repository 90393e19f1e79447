package surroundings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
)

// checkTshark lets tshark decode the datagrams.
func checkTshark(t *testing.T, l *systest.SflowListener, all []systest.SflowDatagram) {
	file := l.WriteDatagrams(t)
	out := systest.OutputOf(t, "tshark", "-nr", file, "-o", "sflow.enable_dissection:FALSE", "-T", "fields", "-E", "separator=|",
		"-e", "sflow_245.agent", "-e", "sflow_245.sub_agent_id", "-e", "sflow_245.sequence_number", "-e", "sflow_245.numsamples",
		"-e", "sflow.flow_sample.sequence_number", "-e", "sflow.flow_sample.sampling_rate", "-e", "sflow.flow_sample.sample_pool",
		"-e", "sflow.flow_sample.input_interface_value", "-e", "sflow.flow_sample.output_interface_value",
		"-e", "sflow_245.header.frame_length", "-e", "sflow_245.vlan.in", "-e", "sflow_245.ifindex", "-e", "_ws.malformed", "-e", "_ws.expert.message")
	var want strings.Builder
	for _, d := range all {
		var columns [10][]string
		for _, s := range d.Samples {
			add := func(column int, numbers ...uint32) {
				for _, n := range numbers {
					columns[column] = append(columns[column], fmt.Sprint(n))
				}
			}
			switch {
			case s.Kind == systest.CounterSample:
				add(7, s.SourceIndex)
			case s.Kind == systest.FlowSample:
				add(0, s.Sequence)
				add(1, s.Rate)
				add(2, s.Pool)
				add(3, s.Input)
				add(4, s.Output)
				add(5, s.FrameLength)
				if s.Vlan > 0 {
					add(6, s.Vlan)
				}
			}
		}
		fmt.Fprintf(&want, "%s|%d|%d|%d", d.Agent, d.SubAgent, d.Sequence, len(d.Samples))
		for _, c := range columns {
			want.WriteString("|" + strings.Join(c, ","))
		}
		want.WriteString("\n")
	}
	got := strings.Split(out, "\n")
	for i, line := range strings.Split(want.String(), "\n") {
		if i < len(all) && slices.ContainsFunc(all[i].Samples, isSpecial) {
			if common := slices.IndexFunc(all[i].Samples, func(s systest.SflowSample) bool { return !isSpecial(s) }); common >= 0 {
				t.Errorf("datagram %d has samples that tshark does not know, and others", i)
			}
			continue
		}
		if diff := cmp.Diff(line, got[i]); diff != "" {
			t.Errorf("datagram %d: tshark's fields (-want +got):\n%s", i, diff)
		}
	}
}

// isSpecial tells whether some programs do not know a sample.
func isSpecial(s systest.SflowSample) bool { return s.Kind == systest.DiscardedSample }
