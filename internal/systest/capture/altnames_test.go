package capture_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An interface is also found by its alternative names, and goes by its own name from there on.
func TestAlternativeNames(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	const short, long = "other0", "a-name-of-more-than-sixteen-characters"
	pair := testnet.MustPair(t, testnet.PairOptions{})
	err := pair.Rx.Do(func() error {
		l, err := netlink.LinkByName(pair.RxName)
		for _, name := range []string{short, long} {
			if err == nil {
				err = netlink.LinkAddAltName(l, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", short, "-w", file, "--json")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if s := systest.Account(t, p.Interrupt()); s.Interfaces[0].Interface != pair.RxName || s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
	_, r := systest.ReadFile(t, file)
	if ifi, err := r.Interface(0); err != nil || ifi.Name != pair.RxName {
		t.Errorf("the file's interface is %q, %v", ifi.Name, err)
	}

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"stats", "-i", long, "--count", "1", "--interval", "20ms"}, "listening on " + pair.RxName + ", XDP native"},
		{[]string{"-i", short, "-i", pair.RxName}, "interface " + pair.RxName + " is given twice"},
		{[]string{"-i", strings.Repeat("x", 200)}, "does not exist"},
		{[]string{"count", "-i", "any"}, "xdpcap: interface any: interfaces must be named here; there are: lo, "},
		{[]string{"count", "-i", "any"}, "; name it with -i, and repeat -i for several\n"},
		{[]string{"stats", "-i", "any"}, "interface any: interfaces must be named here"},
	} {
		if _, stderr := systest.Start(t, pair.Rx, nil, test.args...).Wait(); !strings.Contains(stderr, test.want) {
			t.Errorf("%v: %q does not say %q", test.args, stderr, test.want)
		}
	}
}
