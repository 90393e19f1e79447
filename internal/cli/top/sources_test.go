package top

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
