package surroundings_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A goflow2 is the collector of that name, which writes decoded samples as JSON.
type goflow2 struct{ file string }

// startGoflow2 starts goflow2 as in contrib/fleet. It is built only if Go's build cache does not
// have it.
func startGoflow2(t *testing.T, pair *testnet.Pair, port uint16) *goflow2 {
	t.Helper()
	g := &goflow2{file: filepath.Join(t.TempDir(), "json")}
	find := exec.Command("go", "tool", "-C", filepath.Join("..", "..", "..", "contrib", "fleet"), "-n", "goflow2")
	find.Stderr = os.Stderr
	binary, err := find.Output()
	if err != nil {
		t.Fatalf("%v: %v", find.Args, err)
	}
	startCollector(t, pair, port, strings.TrimSpace(string(binary)), "-listen", fmt.Sprintf("sflow://127.0.0.1:%d", port),
		"-addr", "", "-produce", "raw", "-transport.file", g.file, "-templates.path", "")
	return g
}

// check compares goflow2's samples with those of a collector of the test. Their pools may differ,
// because each output reads the pool separately.
func (g *goflow2) check(t *testing.T, all []systest.SflowDatagram) {
	var want, got []string
	for _, d := range all {
		for _, s := range d.Samples {
			want = append(want, s.Fields(d.Agent.String(), d.SubAgent))
		}
	}
	slices.Sort(want)
	testnet.WaitFor(t, "goflow2", func() bool {
		got = g.read(t)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("goflow2's samples (-want +got):\n%s", diff)
	}
}

// A goflow2Sample has the fields of goflow2's flow samples, discarded packets and counters.
type goflow2Sample struct {
	Header struct {
		Format   uint32
		Sequence uint32 `json:"sample-sequence-number"`
		Type     uint32 `json:"source-id-type"`
		Index    uint32 `json:"source-id-value"`
	}
	Rate         uint32 `json:"sampling-rate"`
	Drops        uint32 `json:"drops"`
	Input        uint32 `json:"input-if-value"`
	OutputFormat uint32 `json:"output-if-format"`
	Output       uint32 `json:"output-if-value"`
	DiscardInput uint32 `json:"input"`
	Reason       uint32
	Records      []struct {
		Header struct {
			Format uint32 `json:"data-format"`
			Length int
		}
		Data struct {
			FrameLength uint32 `json:"frame-length"`
			Stripped    uint32
			Length      int    `json:"original-length"`
			Header      []byte `json:"header-data"`
			VLAN        uint32 `json:"src-vlan"`
			Priority    uint32 `json:"src-priority"`
			Index       uint32 `json:"if-index"`
		}
	}
}

// read returns the samples that goflow2 has written so far. Each of its two workers writes a
// message first and the end of its line afterwards, so one line may have two messages and the next
// line none.
func (g *goflow2) read(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(g.file)
	testnet.Must(t, err)
	for messages := json.NewDecoder(bytes.NewReader(text)); ; {
		var d struct {
			Message struct {
				Agent    string `json:"agent-ip"`
				SubAgent uint32 `json:"sub-agent-id"`
				Samples  []goflow2Sample
			}
		}
		if err := messages.Decode(&d); err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, in := range d.Message.Samples {
			h := in.Header
			s := systest.SflowSample{
				Kind: h.Format, Sequence: h.Sequence, SourceType: h.Type, SourceIndex: h.Index,
				Rate: in.Rate, Drops: in.Drops, Input: in.Input + in.DiscardInput, OutputFormat: in.OutputFormat, Output: in.Output, Reason: in.Reason,
				Counters: map[uint32]int{},
			}
			for _, r := range in.Records {
				switch {
				case s.Kind == systest.CounterSample:
					s.Counters[r.Header.Format] = r.Header.Length
				case r.Header.Format == 1:
					s.FrameLength, s.Stripped, s.Header = r.Data.FrameLength, r.Data.Stripped, r.Data.Header[:r.Data.Length]
				case r.Header.Format == 1001:
					s.Vlan, s.Priority = r.Data.VLAN, r.Data.Priority
				}
			}
			all = append(all, s.Fields(d.Message.Agent, d.Message.SubAgent))
		}
	}
	slices.Sort(all)
	return all
}
