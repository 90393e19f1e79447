package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/sflow"
)

// writeDatagrams writes what a collector has received as packets to its port, for tshark.
func (l *sflowListener) writeDatagrams(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "sflow.pcap")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	w.WriteFileHeader(1<<16, layers.LinkTypeRaw)
	for _, d := range l.datagrams {
		ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IPv4(127, 0, 0, 1), DstIP: net.IPv4(127, 0, 0, 1)}
		udp := &layers.UDP{SrcPort: 40000, DstPort: sflow.DefaultPort}
		udp.SetNetworkLayerForChecksum(ip)
		b := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp, gopacket.Payload(d)); err != nil {
			t.Fatal(err)
		}
		w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(b.Bytes()), Length: len(b.Bytes())}, b.Bytes())
	}
	return file
}

// checkTshark lets tshark decode the datagrams.
func checkTshark(t *testing.T, l *sflowListener, all []sflowDatagram) {
	file := l.writeDatagrams(t)
	out := outputOf(t, "tshark", "-nr", file, "-o", "sflow.enable_dissection:FALSE", "-T", "fields", "-E", "separator=|",
		"-e", "sflow_245.agent", "-e", "sflow_245.sub_agent_id", "-e", "sflow_245.sequence_number", "-e", "sflow_245.numsamples",
		"-e", "sflow.flow_sample.sequence_number", "-e", "sflow.flow_sample.sampling_rate", "-e", "sflow.flow_sample.sample_pool",
		"-e", "sflow.flow_sample.input_interface_value", "-e", "sflow.flow_sample.output_interface_value",
		"-e", "sflow_245.header.frame_length", "-e", "sflow_245.vlan.in", "-e", "sflow_245.ifindex", "-e", "_ws.malformed", "-e", "_ws.expert.message")
	var want strings.Builder
	for _, d := range all {
		var columns [10][]string
		for _, s := range d.samples {
			add := func(column int, numbers ...uint32) {
				for _, n := range numbers {
					columns[column] = append(columns[column], fmt.Sprint(n))
				}
			}
			switch {
			case s.kind == counterSample:
				add(7, s.sourceIndex)
			case s.kind == flowSample:
				add(0, s.sequence)
				add(1, s.rate)
				add(2, s.pool)
				add(3, s.input)
				add(4, s.output)
				add(5, s.frameLength)
				if s.vlan > 0 {
					add(6, s.vlan)
				}
			}
		}
		fmt.Fprintf(&want, "%s|%d|%d|%d", d.agent, d.subAgent, d.sequence, len(d.samples))
		for _, c := range columns {
			want.WriteString("|" + strings.Join(c, ","))
		}
		want.WriteString("\n")
	}
	got := strings.Split(out, "\n")
	for i, line := range strings.Split(want.String(), "\n") {
		if i < len(all) && slices.ContainsFunc(all[i].samples, isSpecial) {
			if common := slices.IndexFunc(all[i].samples, func(s sflowSample) bool { return !isSpecial(s) }); common >= 0 {
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
func isSpecial(s sflowSample) bool { return s.kind == discardedSample }
