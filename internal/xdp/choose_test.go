package xdp

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	first, second, twin := Program{ID: 1, Name: "first"}, Program{ID: 2, Name: "second"}, Program{ID: 3, Name: "second"}
	// No such program is loaded, so that the kernel has no name for it.
	elsewhere := Program{ID: 4_000_000_000}
	for _, test := range []struct {
		name      string
		running   []Program
		selectors []string
		want      []Program
		kind      error // nil = none
		text      string
	}{
		{name: "the only one", running: []Program{first}, want: []Program{first}},
		{name: "none", kind: ErrNoProgram, text: "eth0 runs no XDP program that could be traced"},
		{name: "several", running: []Program{first, second}, kind: ErrSeveralPrograms,
			text: "eth0 runs several XDP programs: first (id 1), second (id 2)"},
		{name: "by name", running: []Program{first, second}, selectors: []string{"second"}, want: []Program{second}},
		{name: "in the order asked for", running: []Program{first, second}, selectors: []string{"second", "first"},
			want: []Program{second, first}},
		{name: "all", running: []Program{first, second}, selectors: []string{"all"}, want: []Program{first, second}},
		{name: "one twice", running: []Program{first, second}, selectors: []string{"second", "all"}, want: []Program{second, first}},
		{name: "by id, running elsewhere", running: []Program{first}, selectors: []string{"4000000000"}, want: []Program{elsewhere}},
		{name: "by id, where none runs", selectors: []string{"4000000000"}, want: []Program{elsewhere}},
		{name: "functions", running: []Program{first}, selectors: []string{"first/parse", "all/check", "first"},
			want: []Program{{ID: 1, Name: "first/parse"}, {ID: 1, Name: "first/check"}, first}},
		{name: "a function of another one", running: []Program{first}, selectors: []string{"third/parse"}, kind: ErrOtherProgram,
			text: "program third: eth0 does not run it; it runs first (id 1)"},
		{name: "all of none", selectors: []string{"all"}, kind: ErrOtherProgram, text: "program all: eth0 runs no XDP program"},
		{name: "another name", running: []Program{first, second}, selectors: []string{"third"}, kind: ErrOtherProgram,
			text: "program third: eth0 does not run it; it runs first (id 1), second (id 2)"},
		{name: "an ambiguous name", running: []Program{first, second, twin}, selectors: []string{"second"}, kind: ErrAmbiguousProgram,
			text: "program second: that could be second (id 2), second (id 3)"},
		{name: "an error after one that is found", running: []Program{first}, selectors: []string{"first", "third"}, kind: ErrOtherProgram,
			text: "program third: eth0 does not run it; it runs first (id 1)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			chosen, err := choose("eth0", test.running, test.selectors)
			var got []Program
			for _, c := range chosen {
				if c.Function != "" {
					c.Name += "/" + c.Function
				}
				got = append(got, c.Program)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if !errors.Is(err, test.kind) {
				t.Errorf("error %v, want the kind %v", err, test.kind)
			}
			if err != nil && err.Error() != test.text {
				t.Errorf("error %q, want %q", err, test.text)
			}
		})
	}
}

func TestComponentsInOrder(t *testing.T) {
	t.Parallel()
	a, b, c := Program{ID: 9, Name: "a"}, Program{ID: 7, Name: "b"}, Program{ID: 8, Name: "c"}
	got := inOrder([]component{{c, 30}, {a, 4}, {b, 20}})
	if diff := cmp.Diff([]Program{a, b, c}, got); diff != "" {
		t.Error(diff)
	}
}

func TestObstacle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		ifi            Interface
		reason, remedy string
	}{
		{"Ethernet", Interface{Name: "eth0", Type: "ether", Up: true}, "", ""},
		{"loopback", Interface{Name: "lo", Type: "loopback", Up: true}, "", ""},
		{"a tunnel", Interface{Name: "tun0", Type: "none", Up: true}, `tun0 is not an Ethernet interface (its link type is "none")`, ""},
		{"down", Interface{Name: "eth0", Type: "ether"}, "eth0 is down", "ip link set dev eth0 up"},
		{"a tunnel that is down", Interface{Name: "tun0", Type: "none"}, `tun0 is not an Ethernet interface (its link type is "none")`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			reason, remedy := test.ifi.Obstacle()
			if reason != test.reason {
				t.Errorf("reason %q, want %q", reason, test.reason)
			}
			if remedy != test.remedy {
				t.Errorf("remedy %q, want %q", remedy, test.remedy)
			}
		})
	}
}
