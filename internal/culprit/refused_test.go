package culprit

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Without CAP_NET_ADMIN a loss says that the rules are not known, and what they take. Nothing is
// kept for them then.
func TestRefused(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	testnet.Must(t, err)
	t.Cleanup(func() { ns.Close() })
	testnet.Must(t, ns.Do(func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var had, has [2]unix.CapUserData // of this thread
		if err := unix.Capget(&header, &had[0]); err != nil {
			return err
		}
		has = had
		has[0].Effective &^= 1 << unix.CAP_NET_ADMIN
		if err := unix.Capset(&header, &has[0]); err != nil {
			return err
		}
		defer unix.Capset(&header, &had[0])
		f := Open()
		defer f.Close()
		if !hasNFT() {
			t.Skip("this kernel has no nf_tables")
		}
		got := f.Find(Loss{Reason: "NETFILTER_DROP", Function: "nf_hook_slow", Packets: 3, All: 3}, nil)
		if len(got) != 1 || !strings.Contains(got[0].Text, "takes CAP_NET_ADMIN: operation not permitted") || strings.Contains(got[0].Text, "\n") || len(f.Capabilities()) > 0 {
			t.Errorf("%+v, keeps %v", got, f.Capabilities())
		}
		return nil
	}))
}
