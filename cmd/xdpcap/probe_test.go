package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// probe runs the command in the receiving namespace.
func probe(t *testing.T, pair *testnet.Pair, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(append([]string{"probe"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := pair.Rx.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

type probeJSON struct {
	CanCapture bool `json:"can_capture"`
	Interface  struct {
		Native  struct{ Answer string } `json:"native_xdp"`
		Program *struct {
			Mode      string
			Traceable struct{ Answer, Reason string }
		}
	}
	Features, Drops map[string]struct{ Answer, Reason string }
}

func TestProbe(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	status, stdout, stderr := probe(t, pair, "-i", pair.RxName)
	if status != 0 || stderr != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > 101 {
			t.Errorf("wider than 100 columns: %q", line)
		}
	}
	_, stdout, _ = probe(t, pair, "-i", pair.RxName, "--json")
	free := decodeProbe(t, stdout)
	if !free.CanCapture || free.Interface.Program != nil || free.Features["capture_generic"].Answer != "yes" ||
		free.Features["capture_sent"].Answer != "yes" || !strings.HasPrefix(free.Features["capture_sent"].Reason, "by ") {
		t.Errorf("without a program: %s", stdout)
	}
	for _, stage := range []string{"card", "xdp", "stack", "af_xdp", "egress"} {
		if c := free.Drops[stage]; c.Answer != "yes" || c.Reason == "" {
			t.Errorf("lost packets, %s: %+v", stage, c)
		}
	}
	checkDetached(t, pair)

	v, err := testnet.AttachReceiver(pair.Rx, pair.RxName, xdp.Pass, testnet.ReceiverOptions{Count: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	status, stdout, stderr = probe(t, pair, "-i", pair.RxName, "--json")
	busy := decodeProbe(t, stdout)
	if busy.Interface.Program == nil || busy.Interface.Program.Mode != "native" || busy.Interface.Native.Answer != "yes" ||
		busy.Features["capture_native"].Answer != "no" || busy.Features["capture_generic"].Answer != "no" {
		t.Errorf("with a program: %s", stdout)
	}
	loads := testnet.ProbeFentry() == nil
	if (status == 0) != loads || busy.CanCapture != loads || (busy.Interface.Program.Traceable.Answer == "yes") != loads {
		t.Errorf("fentry loads: %v, but exit status %d, %s", loads, status, stdout)
	}
	if !loads && strings.Count(stderr, "\n") != 1 {
		t.Errorf("not one line: %q", stderr)
	}
	if attached(t, pair) == "" {
		t.Error("the program is gone")
	}
}

func decodeProbe(t *testing.T, s string) (p probeJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return p
}
