package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ns(x float64) *float64 { return &x }

// testReport returns a report with figures that are easy to compute with.
func testReport() *Report {
	rows := func(scale float64) []Row {
		return []Row{
			{Name: dropName, Verdict: "drop", Unpaced: 5e6, Rate: 5e6, OfDrop: 1, Keeps: 1, KeepsLow: 1, KeepsHigh: 1},
			{Name: passName, Verdict: "pass", Unpaced: 1e6, Rate: 1e6, OfDrop: 0.2, Keeps: 1, KeepsLow: 1, KeepsHigh: 1},
			{Name: copyDropName, Verdict: "drop", Unpaced: 4.5e6, Rate: 4.5e6, OfDrop: 0.9, Keeps: 0.9, KeepsLow: 0.88, KeepsHigh: 0.91, ReaderUs: 0.02 * scale},
			{Name: copyPassName, Verdict: "pass", Unpaced: 0.89e6, Rate: 0.89e6, OfDrop: 0.178, Keeps: 0.89, KeepsLow: 0.8, KeepsHigh: 0.92, ReaderUs: 0.03 * scale},
			{
				Name: sinkName(ring), Verdict: "drop", Command: "xdpcap --sink", Unpaced: 4e6, Rate: 4e6 / scale, OfDrop: 0.8 / scale,
				Keeps: 0.8, KeepsLow: 0.75, KeepsHigh: 0.85, Captured: 1, Rounds: 5, Lossless: 4, ReaderUs: 0.04 * scale,
			},
			{
				Name: pollName, Verdict: "drop", Command: "xdpcap --sink -j host_lowprec", Unpaced: 4.4e6, Rate: 4.4e6, OfDrop: 0.88,
				Keeps: 0.88, KeepsLow: 0.85, KeepsHigh: 0.9, Captured: 1, Rounds: 5, Lossless: 5, ReaderUs: 0.02 * scale,
			},
			{
				Name: sinkName(perf), Verdict: "drop", Command: "xdpcap --transport perf --sink", Unpaced: 1.5e6, Rate: 1.5e6, OfDrop: 0.3,
				Keeps: 0.3, KeepsLow: 0.28, KeepsHigh: 0.31, Captured: 1, Rounds: 5, Lossless: 4, ReaderUs: 0.15 * scale,
			},
			{
				Name: ownName(ring), Verdict: "pass", Command: "xdpcap", Unpaced: 0.88e6, Rate: 0.88e6, OfDrop: 0.176,
				Keeps: 0.88, KeepsLow: 0.8, KeepsHigh: 0.9, Captured: 1, Rounds: 5, Lossless: 4, ReaderUs: 0.05 * scale,
			},
			{Name: xdpdumpName, Verdict: "pass", Command: "xdpdump", Unpaced: 0.4e6, Rate: 0.4e6, OfDrop: 0.08, Keeps: 0.4, KeepsLow: 0.3, KeepsHigh: 0.5, Captured: 1, Rounds: 5, Lossless: 4, ReaderUs: 1.6},
			{Name: tcpdumpName, Verdict: "pass", Command: "tcpdump", Unpaced: 0.8e6, Rate: 0.2e6, OfDrop: 0.04, Keeps: 0.8, KeepsLow: 0.7, KeepsHigh: 0.82, Captured: 0.7, Rounds: 5, ReaderUs: 0.2},
			{Name: dumpcapName, Verdict: "pass", Command: "dumpcap", Missing: "not installed"},
		}
	}
	return &Report{
		Measured: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Seconds:  900,
		Machine:  Machine{CPUs: 2, CPU: "Some CPU", Kernel: "Linux 6.18", Load: 0.1, Versions: "xdpcap v1, tcpdump 4"},
		Frames:   []Sheet{{Bytes: 64, Rows: rows(1)}, {Bytes: 1518, Rows: rows(2)}},
		Costs: []Cost{
			{What: clockName, Bytes: 64, KernelNs: ns(36)},
			{What: countName, Bytes: 64, KernelNs: ns(3)},
			{What: copyingName, Bytes: 64, KernelNs: ns(3)},
			{What: copyingName, Bytes: 512, KernelNs: ns(80)},
			{What: wholeName, Transport: ring, Bytes: 64, KernelNs: ns(40)},
			{What: wholeName, Transport: ring, Bytes: 300, KernelNs: ns(81)},
			{What: wholeName, Transport: ring, Bytes: 512, KernelNs: ns(110)},
			{What: pollCost, Transport: ring, Bytes: 64, KernelNs: ns(10)},
			{What: wholeName, Transport: perf, Bytes: 64, KernelNs: ns(300)},
			{What: wholeName, Transport: ring, Bytes: 1518, KernelNs: ns(160)},
			{What: wholeName, Transport: perf, Bytes: 1518, Missing: "interrupted"},
			{What: sampleName, Transport: ring, Bytes: 64, KernelNs: ns(5), OfDrop: 0.97, Captured: 1},
			{What: sampleName, Transport: perf, Bytes: 64, KernelNs: ns(-0.5), OfDrop: 0.96, Captured: 0.99},
			{What: noMatchName, Transport: ring, Bytes: 64, KernelNs: ns(8.5), OfDrop: 0.95, Captured: 1},
			{What: noTagsName, Transport: ring, Bytes: 64, KernelNs: ns(39), OfDrop: 0.82, Captured: 1},
			{What: egressName, Transport: ring, Bytes: 64, Missing: "no tcx"},
			{What: egressName, Transport: perf, Bytes: 64, KernelNs: ns(315)},
			{What: "stats", Bytes: 64, KernelNs: ns(10)},
		},
		Files: []Sheet{
			{Bytes: 64, To: inMemory, Rows: []Row{
				{Name: sinkName(ring), Verdict: "drop", Command: "xdpcap --sink -w FILE", Unpaced: 4e6, Rate: 4e6, OfDrop: 0.8, Keeps: 0.8, Captured: 1, Rounds: 3, Lossless: 3, ReaderUs: 0.05},
				{Name: tcpdumpName, Verdict: "pass", Command: "tcpdump -w FILE", Unpaced: 0.8e6, Keeps: 0.8, Captured: 0.6, Rounds: 3, ReaderUs: 0.3},
			}},
			{Bytes: 1518, To: onDisk, Rows: []Row{
				{Name: sinkName(ring), Verdict: "drop", Command: "xdpcap --sink -w FILE", Unpaced: 3e6, Keeps: 0.6, Captured: 0.9, Rounds: 3, ReaderUs: 0.5},
				{Name: roomName, Verdict: "drop", Command: "xdpcap --sink -w FILE -B 64M", Unpaced: 3e6, Rate: 3e6, Captured: 1, Rounds: 3, Lossless: 3, ReaderUs: 0.5},
				{Name: tcpdumpName, Verdict: "pass", Command: "tcpdump -w FILE", Missing: "no space left on device"},
			}},
		},
		Drains: []Drain{
			{What: wholeName, Bytes: 64, Rings: 1, To: nowhere, Command: "xdpcap --sink", CPUNs: 18, MedianNs: 19, Rate: 30e6, Packets: 48000},
			{What: copyingName, Bytes: 64, Rings: 1, To: nowhere, CPUNs: 8, MedianNs: 9, Rate: 100e6, Packets: 48000},
			{What: wholeName, Bytes: 64, Rings: 2, To: nowhere, Command: "xdpcap --sink", CPUNs: 24, MedianNs: 25, Rate: 23e6, Packets: 96000},
			{What: wholeName, Bytes: 64, Rings: 2, To: inMemory, Command: "xdpcap --sink -w FILE", CPUNs: 60, MedianNs: 70, Rate: 13e6, Packets: 96000},
			{What: copyingName, Bytes: 64, Rings: 2, To: inMemory, CPUNs: 80, MedianNs: 90, Rate: 12e6, Packets: 96000},
			{What: otherFile, Bytes: 64, Rings: 1, To: nowhere, Command: "xdpcap --format pcap", Missing: "ended at once"},
			{What: tcpdumpName, Bytes: 64, Rings: 1, To: nowhere, Command: "tcpdump", CPUNs: 150, MedianNs: 160, Rate: 6e6, Packets: 16000},
		},
		Stalls: []Stall{
			{Bytes: 64, Rate: 1.5e6, Seconds: 1, Command: "xdpcap --sink -w -", Sent: 11e6, Reached: 1.49e6},
			{Bytes: 1518, Rate: 300e3, Seconds: 1, Missing: "only 200000 packets per second were sent"},
		},
		TwoCPUs: []TwoCPUs{
			{Transport: ring, OneEmpty: 30e6, TwoEmpty: 57e6, One: 10e6, Two: 16e6, Scale: 0.842, Drop: 9e6, Unpaced: 6e6, Keeps: 0.67, Captured: 0.9, Rate: 3e6, OfDrop: 0.33},
			{Transport: perf, Missing: "not tried"},
		},
	}
}

// A written report is read back equal: the documents are made from the file.
func TestReportFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report.json")
	want := testReport()
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}
