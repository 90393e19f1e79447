package capture

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Run times are those of a traced program, and no longer than a record has room for.
func TestSlowerThanOptions(t *testing.T) {
	t.Parallel()
	const no, needsExit, ok = "another error", "ErrNeedsExit", "no error"
	for _, test := range []struct {
		name string
		o    Options
		want string
	}{
		{"exits", Options{Hooks: []Hook{Exit}, SlowerThan: MaxRunTime}, ok},
		{"entries and exits", Options{Hooks: []Hook{Exit, Entry}, Direction: InOut, SlowerThan: 1}, ok},
		{"entries, which wait for their exits", Options{Hooks: []Hook{Entry}, SlowerThan: 1}, ok},
		{"no program", Options{SlowerThan: 1}, needsExit},
		{"lost packets", Options{StackDrops: true, SlowerThan: time.Microsecond}, no},
		{"sent packets", Options{Direction: Out, SlowerThan: 1}, no},
		{"negative", Options{Hooks: []Hook{Exit}, SlowerThan: -1}, no},
		{"too long", Options{Hooks: []Hook{Exit}, SlowerThan: MaxRunTime + 1}, no},
		{"hook map", Options{HookMap: "/none", SlowerThan: 1}, no},
	} {
		if test.o.HookMap == "" {
			test.o.Interfaces = []string{"unused"}
		}
		_, err := test.o.withDefaults()
		got := no
		switch {
		case err == nil:
			got = ok
		case errors.Is(err, ErrNeedsExit):
			got = needsExit
		}
		if got != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

// Options that have no meaning for what is captured are refused, and the others are not.
func TestScopes(t *testing.T) {
	t.Parallel()
	scopes := map[string]Options{
		"map":      {HookMap: "/none"},
		"drops":    {StackDrops: true},
		"sent":     {Direction: Out},
		"patterns": {Patterns: []string{"*"}},
		"named":    {Interfaces: []string{"unused"}},
	}
	for name, test := range map[string]struct {
		set     func(*Options)
		refused string // the scopes
	}{
		"HookMap":        {func(o *Options) { o.HookMap = "/none" }, "drops patterns sent named"},
		"StackDrops":     {func(o *Options) { o.StackDrops = true }, "map sent"},
		"Direction":      {func(o *Options) { o.Direction = InOut }, "map drops"},
		"Sink":           {func(o *Options) { o.Sink = true }, "map drops sent patterns"},
		"Hooks":          {func(o *Options) { o.Hooks = []Hook{Exit} }, "map drops sent"},
		"Targets":        {func(o *Options) { o.Targets = []string{"x"} }, "map drops sent"},
		"Verdicts":       {func(o *Options) { o.Verdicts = []Verdict{Drop} }, "drops sent"},
		"SlowerThan":     {func(o *Options) { o.SlowerThan = 1 }, "map drops sent"},
		"ReasonMap":      {func(o *Options) { o.ReasonMap = "/none" }, "map sent"},
		"FilterAtExit":   {func(o *Options) { o.FilterAtExit = true }, "drops sent"},
		"SampleVerdicts": {func(o *Options) { o.SampleVerdicts = map[Verdict]uint32{Drop: 1} }, "drops sent"},
		"Mode":           {func(o *Options) { o.Mode = Generic }, "map drops sent"},
		"Promiscuous":    {func(o *Options) { o.Promiscuous = PromiscuousOn }, "map drops sent patterns"},
		"VLANRestore":    {func(o *Options) { o.VLANRestore = VLANRestoreOn }, "drops"},
		"Stamp":          {func(o *Options) { o.Stamp = AdapterStamp }, "drops patterns"},
		"Companions":     {func(o *Options) { o.Companions = func(Source) (c Companions, err error) { return c, nil } }, "map drops patterns"},
		"SnapLen":        {func(o *Options) { o.SnapLen = 60 }, ""},
	} {
		for scope, o := range scopes {
			if test.set(&o); name == "Direction" && scope == "sent" || name == "HookMap" && scope == "map" {
				continue // the option is what makes the scope
			}
			want := strings.Contains(test.refused, scope)
			if err := o.checkScopes(); (err != nil) != want {
				t.Errorf("%s with %q: %v, want an error: %v", name, scope, err, want)
			}
		}
	}
}
