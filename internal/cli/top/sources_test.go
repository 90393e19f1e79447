package top

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// If an interface refuses a filter, all of them count by the former one.
func TestRefilter(t *testing.T) {
	t.Parallel()
	refusal := errors.New("refused")
	o := new(Options)
	o.filter.Text = "udp"
	s := &sources{o: o}
	s.openSource = func(string) (*source, error) {
		if o.filter.Text == "tcp" && len(s.all) > 1 && s.all[1].how == "tcp" {
			return nil, refusal
		}
		return &source{reading: reading{name: "lo", how: o.filter.Text}}, nil
	}
	filters := func() (all []string) {
		for _, one := range s.all {
			all = append(all, one.how)
		}
		return all
	}
	for range 4 {
		s.all = append(s.all, &source{reading: reading{name: "lo", how: "udp"}})
	}
	if refused, final := s.refilter("tcp"); refused != refusal || final != nil {
		t.Errorf("%v, %v", refused, final)
	}
	if diff := cmp.Diff(slices.Repeat([]string{"udp"}, 4), filters()); diff != "" || o.filter.Text != "udp" {
		t.Errorf("filter %q: %s", o.filter.Text, diff)
	}
	if refused, final := s.refilter("icmp"); refused != nil || final != nil {
		t.Errorf("%v, %v", refused, final)
	}
	if diff := cmp.Diff(slices.Repeat([]string{"icmp"}, 4), filters()); diff != "" {
		t.Error(diff)
	}
}

// The packets of a row are found at the same port of VXLAN as they were counted.
func TestWatchInTunnel(t *testing.T) {
	t.Parallel()
	o, cmd := new(Options), new(cobra.Command)
	frame.AddFlags(cmd, "Filter", o.filter.VXLANPortFlag())
	if err := cmd.ParseFlags([]string{"--vxlan-port", "5000"}); err != nil {
		t.Fatal(err)
	}
	got, err := (&sources{o: o}).watchOptions(choice{interfaces: []string{"lo"}})
	if err != nil || got.VXLANPort != 5000 {
		t.Errorf("port %d, %v", got.VXLANPort, err)
	}
}
