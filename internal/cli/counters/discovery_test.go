package counters

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func ethernet(index int, name string) xdp.Interface {
	return xdp.Interface{Index: index, Name: name, Type: "ether", Up: true}
}

// Interfaces are counted from when they come until they go. One that cannot be counted is reported
// once and tried again after a minute, and counting that ends begins again.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ifis []xdp.Interface
		var said strings.Builder
		closed := 0
		registry := metrics.NewRegistry()
		meters := make(map[string]*fakeMeter)
		opened := make(map[string]int)
		open := func(name string) (*Counter[uint64], error) {
			opened[name]++
			if name == "bad0" {
				return nil, errors.New("bad0 has no room")
			}
			meters[name] = &fakeMeter{name: name, began: time.Now(), closed: &closed}
			c := meters[name].counter()
			c.Metrics.Labels = map[string]string{"interface": name}
			return c, nil
		}
		d := newDiscovered()
		d.list = func() ([]xdp.Interface, error) { return ifis, nil }
		r := &counterRun[uint64]{
			o: &Options{listen: ":1"}, open: []opener[uint64]{open}, registry: registry, out: io.Discard, messages: &said, discovered: d,
		}
		step := func(now []xdp.Interface, want string) {
			t.Helper()
			ifis = now
			said.Reset()
			if !r.look() {
				t.Error("it has ended")
			}
			if diff := cmp.Diff(want, said.String()); diff != "" {
				t.Error(diff)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			exported := 0
			for _, f := range families {
				exported += len(f.Metric)
			}
			if exported != len(r.counted) {
				t.Errorf("%d interfaces exported, %d counted", exported, len(r.counted))
			}
			time.Sleep(LookInterval)
		}
		lo := xdp.Interface{Index: 1, Name: "lo", Type: "loopback", Up: true}
		down := xdp.Interface{Index: 5, Name: "down0", Type: "ether"}
		bridge := ethernet(6, "br0")
		bridge.Driver = "bridge"
		bad := ethernet(4, "bad0")
		step([]xdp.Interface{lo, ethernet(2, "eth0"), down, bridge, bad}, "xdpcap: listening on eth0\nxdpcap: bad0 is not counted: bad0 has no room\n")
		step([]xdp.Interface{lo, ethernet(2, "eth0"), ethernet(3, "eth1"), bad}, "xdpcap: listening on eth1\n")
		step([]xdp.Interface{lo, ethernet(3, "eth1"), bad}, "xdpcap: eth0 has gone\n")
		step([]xdp.Interface{lo, ethernet(3, "new1"), bad}, "xdpcap: eth1 has gone\nxdpcap: listening on new1\n")
		if opened["bad0"] != 1 || closed != 2 {
			t.Errorf("%d tries, %d closed", opened["bad0"], closed)
		}
		meters["new1"].follow = func() (string, error) { return "", errors.New("somebody has detached it") }
		step([]xdp.Interface{ethernet(3, "new1"), bad}, "xdpcap: somebody has detached it\nxdpcap: listening on new1\n")
		bad.Programs = []xdp.Program{{ID: 9}} // a new state: tried at once
		step([]xdp.Interface{bad}, "xdpcap: new1 has gone\n")
		time.Sleep(time.Minute)
		step([]xdp.Interface{bad}, "")
		if opened["bad0"] != 3 {
			t.Errorf("%d tries, want 3", opened["bad0"])
		}
		bridge.Programs = bad.Programs
		step([]xdp.Interface{bridge}, "xdpcap: listening on br0\n")
		if err := r.end(r.counted...); err != nil || closed != 5 {
			t.Error(err, closed)
		}
	})
}
