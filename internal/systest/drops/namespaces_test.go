package drops_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// drops of the whole machine has the names that ip-netns gives network namespaces, also in its
// sandbox.
func TestDropsNamesNamespaces(t *testing.T) {
	t.Parallel()
	name := fmt.Sprint("xdpcap-named-", os.Getpid())
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v %s", args, err, out)
		}
	}
	run("netns", "add", name)
	t.Cleanup(func() { run("netns", "delete", name) })
	run("-n", name, "link", "set", "lo", "up")
	p, output := systest.Counting(t, testnet.MustPair(t, testnet.PairOptions{}), "drops", "--interval", "1h")
	run("netns", "exec", name, "bash", "-c", "for i in 1 2 3; do echo nothing >/dev/udp/127.0.0.1/9; done; true")
	testnet.WaitHandled(t)
	p.Interrupt()
	if text := output(); !strings.Contains(text, ": /run/netns/"+name+"\n") {
		t.Error(text)
	}
}
