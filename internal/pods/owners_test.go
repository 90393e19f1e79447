package pods_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/pods"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// addAddress gives an interface an address.
func addAddress(t *testing.T, ns *testnet.Namespace, name, address string) {
	t.Helper()
	err := ns.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		// A test's namespace has no IPv6 unless the test enables it.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("0"), 0); err != nil {
			return err
		}
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(l, a)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// indexOf is the index of an interface.
func indexOf(t *testing.T, ns *testnet.Namespace, name string) (index int) {
	t.Helper()
	err := ns.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err == nil {
			index = l.Attrs().Index
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// A host has two pods, each at the end of a pair, and one with its own network. Seen from the host,
// an interface belongs to the pod at its other end; seen from a pod, all are its own. The first
// addresses of all pods are known in both cases.
func TestLook(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	web := testnet.MustPair(t, testnet.PairOptions{})
	host := web.Tx
	db, err := testnet.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = host.Do(func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "todb0"}, PeerName: "eth0"}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		peer, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return db.MoveHere(peer)
	})
	if err != nil {
		t.Fatal(err)
	}
	addAddress(t, web.Rx, web.RxName, "10.1.0.2/24")
	addAddress(t, db, "eth0", "10.1.0.3/24")
	addAddress(t, db, "eth0", "169.254.7.7/16") // of the link alone
	addAddress(t, db, "lo", "fd00::99/128")
	addAddress(t, web.Rx, "lo", "fd00::99/128") // two pods have it
	for ifi, later := range map[string]string{"eth0": "8.8.8.8/32", "lo": "2001:db8::8/128"} {
		addAddress(t, db, ifi, later) // such a one may be another host's
	}
	dir := t.TempDir()
	paths := map[string]string{}
	for name, ns := range map[string]*testnet.Namespace{"web": web.Rx, "db": db, "host": host} {
		paths[name] = filepath.Join(dir, name)
		ns.MountAt(t, paths[name])
	}
	all := []pods.Pod{
		{Namespace: "default", Name: "db-0", Netns: paths["db"]},
		{Namespace: "default", Name: "ended", Netns: filepath.Join(dir, "nosuch")},
		{Namespace: "default", Name: "proxy"},
		{Namespace: "default", Name: "unmounted", Netns: os.DevNull},
		{Namespace: "default", Name: "web-1", Netns: paths["web"]},
	}
	home, err := os.Open(paths["host"])
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	for _, test := range []struct {
		name  string
		from  *testnet.Namespace
		home  *os.File
		owned map[string]string // interfaces
		named map[string]string // addresses
	}{
		{"host", host, nil, map[string]string{web.TxName: "default/web-1", "todb0": "default/db-0", "lo": ""},
			map[string]string{"10.1.0.2": "default/web-1", "10.1.0.3": "default/db-0"}},
		{"pod that was entered", web.Rx, home, map[string]string{web.RxName: "default/web-1", "lo": "default/web-1"},
			map[string]string{"10.1.0.2": "default/web-1", "10.1.0.3": "default/db-0"}},
		{"pod", db, nil, map[string]string{"eth0": "default/db-0"},
			map[string]string{"10.1.0.3": "default/db-0", "fd00::99": "default/db-0"}},
	} {
		var owners *pods.Owners
		if err := test.from.Do(func() (err error) { owners, err = pods.FindOwners(all, test.home); return err }); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		owned, named := make(map[string]string), make(map[string]string)
		for name := range test.owned {
			owned[name] = ""
			if p := owners.Of(indexOf(t, test.from, name)); p != nil {
				owned[name] = p.String()
			}
		}
		for _, a := range owners.Addresses() {
			named[a.Addr.String()] = a.Pod.String()
		}
		if diff := cmp.Diff(test.owned, owned); diff != "" {
			t.Errorf("%s: interfaces: %s", test.name, diff)
		}
		if diff := cmp.Diff(test.named, named); diff != "" {
			t.Errorf("%s: addresses: %s", test.name, diff)
		}
	}
}

// Without pods there are no owners, and no request is sent.
func TestNoOwners(t *testing.T) {
	t.Parallel()
	var none *pods.Owners
	if none.Of(1) != nil || none.Addresses() != nil {
		t.Error("there are owners")
	}
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	o, err := pods.FindOwners(nil, nil)
	if err != nil || o.Of(loopback.Index) != nil || o.Addresses() != nil {
		t.Errorf("%+v, %v", o, err)
	}
}
