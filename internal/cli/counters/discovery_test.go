package counters

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/meter"
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
		open := func(name string) (AnyCounter, error) {
			opened[name]++
			if name == "bad0" {
				return nil, errors.New("bad0 has no room")
			}
			meters[name] = &fakeMeter{name: name, began: time.Now(), closed: &closed}
			c := meters[name].counter()
			c.Metrics.Labels = map[string]string{"interface": name}
			return c, nil
		}
		d := NewDiscovery(new(Options).wants)
		d.list = func() ([]xdp.Interface, error) { return ifis, nil }
		r := &counterRun{
			o: &Options{listen: ":1"}, open: []opener{open}, registry: registry, out: io.Discard, messages: &said, discovery: d,
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

// An amountReport is that of a meter that counts this many more with every snapshot.
type amountReport struct {
	IntervalKeys
	all, lately uint64
}

func (r *amountReport) WriteTable(w io.Writer)    { fmt.Fprintln(w, r.all, r.lately) }
func (r *amountReport) amount() (uint64, float64) { return r.all, float64(r.lately) }

// A pattern's busiest interface comes first. Those that counted nothing in the interval, or in the
// whole time, are one line.
func TestIdleInterfaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &counterRun{o: new(Options), discovery: NewDiscovery(new(Options).wants)}
		for i, test := range []struct{ before, now uint64 }{{0, 1}, {7, 7}, {2, 9}, {0, 0}} {
			c := (&fakeMeter{name: fmt.Sprint("veth", i)}).counter()
			c.report = func(i meter.Interval[uint64]) Report {
				return &amountReport{newIntervalKeys(i), i.Now, i.Now - i.Before}
			}
			*c.Interval = meter.Interval[uint64]{Before: test.before, Now: test.now, Took: time.Second, Elapsed: 2 * time.Second, End: time.Now()}
			r.counted = append(r.counted, &counted{AnyCounter: c, index: i + 1})
		}
		for _, test := range []struct {
			report func(*counted) Report
			want   string
		}{
			{(*counted).LastReport, "NOW  veth2, rates over 1.000 s, totals over 2.000 s\n9 7\nNOW  veth0, rates over 1.000 s, totals over 2.000 s\n1 1\nand 2 idle\n"},
			{(*counted).WholeReport, "NOW  veth2, over 2.000 s\n9 9\nNOW  veth1, over 2.000 s\n7 7\nNOW  veth0, over 2.000 s\n1 1\nand 1 idle\n"},
		} {
			blocks := r.blocks("NOW", test.report)
			if diff := cmp.Diff(test.want, string(bytes.Join(blocks, nil))); diff != "" {
				t.Error(diff)
			}
		}
		r.counted = r.counted[3:]
		if got := r.blocks("NOW", (*counted).LastReport); string(bytes.Join(got, nil)) != "NOW  1 idle interface\n" {
			t.Errorf("%q", got)
		}
	})
}

// A pattern wants every interface of that name that is up, for a command about programs only where
// one runs.
func TestWants(t *testing.T) {
	t.Parallel()
	down, runs := ethernet(2, "veth0"), ethernet(3, "veth1")
	down.Up, runs.Programs = false, []xdp.Program{{ID: 1}}
	for _, test := range []struct {
		interfaces string
		tracesOnly bool
		ifi        xdp.Interface
		want       bool
	}{
		{"veth*", false, ethernet(1, "veth7"), true},
		{"veth*", false, ethernet(1, "eth0"), false},
		{"any", false, ethernet(1, "eth0"), true},
		{"any", false, down, false},
		{"any", false, xdp.Interface{Index: 1, Name: "lo", Type: "loopback", Up: true}, false},
		{"veth?", true, ethernet(1, "veth7"), false},
		{"veth?", true, runs, true},
		{"", true, ethernet(1, "eth0"), true}, // for --listen
	} {
		o := &Options{tracesOnly: test.tracesOnly}
		if test.interfaces != "" {
			o.Interfaces = []string{test.interfaces}
		}
		if got := o.wants(&test.ifi); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
