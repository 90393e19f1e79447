package capture

import (
	"cmp"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// Every flag that applyRules may forget has its default again, and is as if nothing had set it. A
// flag that was typed stays.
func TestForgetSettings(t *testing.T) {
	t.Parallel()
	values := map[string]string{ // by flag or type
		"bool": "true", "name": "x", "size": "1M", "uint": "7", "int": "7", "uint64": "7", "time": "7s", "string": "x", "stringSlice": "x", "stringArray": "x",
		"vlan-restore": "false", "trigger": "aborted", "direction": "out",
	}
	idle := new(Options).IdleRotation(false)
	for _, r := range rules {
		idle = append(idle, r.flags...)
	}
	slices.Sort(idle)
	for _, name := range slices.Compact(idle) {
		for _, typed := range []bool{false, true} {
			flags := newCommand(new(Options)).Flags()
			f := flags.Lookup(name)
			value := cmp.Or(values[name], values[f.Value.Type()])
			if err := flags.Set(name, value); err != nil || f.Value.String() == f.DefValue {
				t.Fatalf("--%s %s: it is %s, %v", name, value, f.Value, err)
			}
			if !typed {
				annotateSetting(t, flags, name)
			}
			frame.ForgetSettings(flags, name)
			if f.Changed != typed || (f.Value.String() != f.DefValue) != typed {
				t.Errorf("--%s, typed: %v: it is %s, the default is %s, changed %v", name, typed, f.Value, f.DefValue, f.Changed)
			}
		}
	}
}

// annotateSetting marks a flag as set by a file.
func annotateSetting(t *testing.T, flags *pflag.FlagSet, name string) {
	t.Helper()
	if err := flags.SetAnnotation(name, frame.SettingKey, []string{"/etc/xdpcap.conf:1"}); err != nil {
		t.Fatal(err)
	}
}
