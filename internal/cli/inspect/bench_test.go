package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/bench"
	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestBenchProgramTable(t *testing.T) {
	t.Parallel()
	b := &bench.Result{
		Program: xdp.Program{ID: 7, Name: "lb"},
		Total:   bench.Cost{Packets: 200, Changed: 150, OnceNs: 123.4, Ns: 12.25, Repeated: 50, Hardware: true, Cycles: 33.3, NativeInstructions: 99},
	}
	b.Verdicts[xdp.Tx] = bench.Cost{Packets: 150, Changed: 150, OnceNs: 140}
	b.Verdicts[xdp.Drop] = bench.Cost{Packets: 50, OnceNs: -0.5, Ns: 12.25, Repeated: 50, Hardware: true, Cycles: 33.3, NativeInstructions: 99}
	clitest.CheckReport(t, "bench-program", newProgramReport(b, &bench.Packets{Cut: 3, Short: 1, Long: 1, More: true}, 1))
}

// A missing or wrong flag is one clear line.
func TestBenchFlags(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "out.pcapng")
	for args, want := range map[string]string{
		"":                                  "--program is missing: which program?",
		"--program=":                        "--program is missing: which program?",
		"--program lb --duration 1ms":       "--duration 1ms: must be at least 10ms",
		"--program lb --packets " + missing: "--packets: open " + missing + ": no such file",
		"--program lb --packets bench.go":   "--packets: bench.go is neither pcapng nor pcap",
	} {
		root := NewBench(frame.NewProcess(os.Stdout, os.Stderr))
		root.SetArgs(strings.Fields(args))
		root.SetOut(&bytes.Buffer{})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %s: %v, want %q", args, err, want)
		}
	}
}
