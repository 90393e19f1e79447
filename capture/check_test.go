package capture

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// The rings, with what each takes besides its records, take at most a quarter of the available
// memory. Those that nobody has asked for are made smaller. Those that somebody has are refused.
func TestFitBuffer(t *testing.T) {
	t.Parallel()
	perfPage := os.Getpagesize()
	for _, test := range []struct {
		name      string
		asked     int
		cpus      int
		available int
		want      int
		notice    string
		err       string
	}{
		{"default", 0, 2, 1 << 30, DefaultBuffer, "", ""},
		{"rounded", 129 << 10, 2, 1 << 30, 256 << 10, "", ""},
		{"exactly a quarter", 0, 32, 1<<30 + 4*32*perfPage, DefaultBuffer, "", ""},
		{"a page too much", 0, 32, 1<<30 + 4*31*perfPage, DefaultBuffer / 2,
			"rings of 8 MiB for 32 CPUs would take more than a quarter of the available memory, which is 1024 MiB: ring size lowered to 4 MiB", ""},
		{"default is too much", 0, 256, 4 << 30, 2 << 20,
			"rings of 8 MiB for 256 CPUs would take more than a quarter of the available memory, which is 4096 MiB: ring size lowered to 2 MiB", ""},
		{"never below the least", 0, 256, 64 << 20, MinBuffer,
			"rings of 8 MiB for 256 CPUs would take more than a quarter of the available memory, which is 64 MiB: ring size lowered to 128 KiB", ""},
		{"asked for too much", 1 << 30, 2, 4 << 30, 0, "",
			"rings of 1024 MiB for 2 CPUs would take more than a quarter of the available memory, which is 4096 MiB: at most 256 MiB fit"},
		{"the least is taken", MinBuffer, 1024, 64 << 20, MinBuffer, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var notice string
			o := Options{Buffer: test.asked, Notice: func(err error) { notice += err.Error() }}
			rings := o.ringOptions()
			smaller, err := rings.fit(ringMemory{cpus: test.cpus, each: perfMemory, available: machine.Memory{Bytes: uint64(test.available)}})
			o.notice(smaller)
			if test.err != "" {
				if !errors.Is(err, ErrBufferTooLarge) || err.Error() != test.err {
					t.Errorf("the error %v, want %s", err, test.err)
				}
				return
			}
			must(t, err)
			if rings.size != test.want {
				t.Errorf("rings of %d bytes, want %d", rings.size, test.want)
			}
			same(t, test.notice, notice, "the notice")
		})
	}
}

// What comes after the records of a shared ring counts, too: as much as a record can have.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	for _, size := range []int{MinBuffer, DefaultBuffer} {
		if got, least := sharedMemory(size), size+maxRingRecord; got < least || got%os.Getpagesize() != 0 {
			t.Errorf("a ring of %d bytes takes %d, want %d or more, in whole pages", size, got, least)
		}
	}
	m := ringMemory{cpus: 2, each: sharedMemory, available: machine.Memory{Bytes: 4 * 2 * DefaultBuffer}}
	if got := m.affordable(DefaultBuffer); got != DefaultBuffer/2 {
		t.Errorf("rings of %d bytes fit", got)
	}
}

// Run times are measured at exits alone, and no longer than a record has room for.
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
		{"no exit", Options{Hooks: []Hook{Entry}, SlowerThan: 1}, needsExit},
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
		"StackDrops":     {func(o *Options) { o.StackDrops = true }, "map patterns sent"},
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
