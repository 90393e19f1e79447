package testnet

import (
	"os/exec"
	"strings"
	"testing"
)

// The awaited words may come in pieces and more than once. The whole output is kept and copied.
func TestProcess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		writes  []string
		isReady bool
	}{
		{[]string{"xdpcap: listening on rx0\n"}, true},
		{[]string{"hello\nxdpcap: list", "ening on rx0"}, true},
		{[]string{"listening on rx0\n", "listening on rx1\n"}, true},
		{[]string{"listening\non rx0\n"}, false},
	} {
		var copied strings.Builder
		p := &Process{Ready: make(chan struct{}), awaited: "listening on", copies: &copied}
		for _, text := range test.writes {
			if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		isReady := false
		select {
		case <-p.Ready:
			isReady = true
		default:
		}
		if want := strings.Join(test.writes, ""); isReady != test.isReady || p.Output() != want || copied.String() != want {
			t.Errorf("%q: ready %v, kept %q, copied %q", test.writes, isReady, p.Output(), copied.String())
		}
	}
}

// A program's end and its error are known to the caller.
func TestStartProcess(t *testing.T) {
	t.Parallel()
	RequireRoot(t)
	var copied strings.Builder
	p, err := StartProcess(MustNamespace(t), exec.Command("sh", "-c", "echo ready; echo failed >&2; exit 3"), "ready", &copied)
	Must(t, err)
	<-p.Ready
	<-p.Ended
	if p.Cmd.ProcessState.ExitCode() != 3 || p.Err == nil || !strings.Contains(p.Output(), "failed\n") || copied.String() != p.Output() {
		t.Errorf("%v, %q", p.Err, p.Output())
	}
}
