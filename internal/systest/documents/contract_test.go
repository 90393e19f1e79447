package documents_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/inspect"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The list in docs/internals/command-line.md has every flag of every command, and no other. Flags
// that exist only for users of other tools are hidden.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	root := cli.NewRoot()
	got := make(map[string][]string)
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + "," + name
			}
			got[cmd.Name()] = append(got[cmd.Name()], name)
		})
	}
	want := testfile.List(t, "docs/internals/command-line.md", "Every flag of every command")
	for _, lists := range []map[string][]string{want, got} {
		for _, flags := range lists {
			slices.Sort(flags)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/internals/command-line.md (-) and the commands (+) differ: %s", diff)
	}
}

// flagsOfOthers are flags of skopeo, kubectl, ksniff and others, by the pages that name them.
var flagsOfOthers = map[string][]string{
	"docs/kubernetes.md": {"all", "custom", "for", "from", "image", "image-pull-policy", "profile", "security-opt", "target", "tcpdump-image", "timeout"},
}

// The documents name no flag that no command has. A flag with an underscore belongs to another
// program.
func TestNamedFlagsExist(t *testing.T) {
	t.Parallel()
	root := cli.NewRoot()
	exists := func(flag string) bool {
		return flag == "help" || flag == "version" ||
			slices.ContainsFunc(append(root.Commands(), root), func(cmd *cobra.Command) bool { return cmd.Flags().Lookup(flag) != nil })
	}
	for _, name := range append(systest.Pages(t), systest.Internals(t)...) {
		text := testfile.Read(t, name)
		for _, m := range regexp.MustCompile(`(?m)(?:^|[\s(\x60])--([a-z][a-z-]+)\b`).FindAllStringSubmatch(text, -1) {
			if !exists(m[1]) && !slices.Contains(flagsOfOthers[name], m[1]) {
				t.Errorf("%s names --%s, which no command has", name, m[1])
			}
		}
	}
}

// reports are the objects of counter commands, which an object of the capture may contain.
var reports = []reflect.Type{reflect.TypeFor[systest.StatsReport](), reflect.TypeFor[systest.CountReport](), reflect.TypeFor[systest.LatencyReport]()}

// keysOf lists the keys of the types' JSON objects, each once, without the keys inside reports.
func keysOf(types ...reflect.Type) (keys []string) {
	seen := make(map[reflect.Type]bool)
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(t.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if slices.Contains(reports, t) && !slices.Contains(types, t) {
			return
		}
		if seen[t] || t.Implements(reflect.TypeFor[json.Marshaler]()) {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if name != "" && !slices.Contains(keys, name) {
				keys = append(keys, name)
			}
			walk(f.Type)
		}
	}
	for _, t := range types {
		walk(t)
	}
	slices.Sort(keys)
	return keys
}

// docs/json.md has exactly the keys of every command's --json.
func TestDocumentedKeys(t *testing.T) {
	t.Parallel()
	common := keysOf(reflect.TypeFor[counters.IntervalKeys]())
	want := testfile.List(t, "docs/json.md", "## Keys of --json")
	for name, types := range map[string][]reflect.Type{
		"capture":    {reflect.TypeFor[systest.Summary]()},
		"stats":      {reflect.TypeFor[systest.StatsReport]()},
		"count":      {reflect.TypeFor[systest.CountReport]()},
		"monitor":    {reflect.TypeFor[systest.MonitorReport]()},
		"record":     {reflect.TypeFor[systest.RecordLine]()},
		"drops":      {reflect.TypeFor[systest.DropsReport]()},
		"latency":    {reflect.TypeFor[systest.LatencyReport](), reflect.TypeFor[systest.RuntimeReport]()},
		"replay":     {reflect.TypeFor[systest.ReplayReport](), reflect.TypeFor[systest.ProgramReport]()},
		"read":       {reflect.TypeFor[systest.PacketKeys]()},
		"follow":     {reflect.TypeFor[systest.FollowKeys]()},
		"read-stats": {reflect.TypeFor[systest.ReadReport]()},
		"interfaces": {reflect.TypeFor[systest.InterfaceKeys]()},
		"probe":      {reflect.TypeFor[inspect.ProbeReport](), reflect.TypeFor[support.Check]()},
	} {
		t.Run(name, func(t *testing.T) {
			got := keysOf(types...)
			if slices.Contains([]string{"stats", "count", "monitor", "drops", "latency"}, name) {
				got = slices.DeleteFunc(got, func(key string) bool { return slices.Contains(common, key) })
			}
			slices.Sort(want[name])
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Errorf("docs/json.md (-) and --json (+) differ: %s", diff)
			}
		})
	}
	slices.Sort(want["all"])
	if diff := cmp.Diff(want["all"], common); diff != "" {
		t.Errorf("the keys that all counter commands have: %s", diff)
	}
}

// docs/json.md has every key of a line, in the list and in the table.
func TestDocumentedLineKeys(t *testing.T) {
	t.Parallel()
	line := systest.LineWithAllKeys()
	var keys map[string]any
	testnet.Must(t, json.Unmarshal(line, &keys))
	got := slices.Sorted(maps.Keys(keys))
	if diff := cmp.Diff(testfile.List(t, "docs/json.md", "## Keys of --json")["line"], got); diff != "" {
		t.Errorf("docs/json.md (-) and a line (+) differ: %s", diff)
	}
	_, table, _ := strings.Cut(testfile.Read(t, "docs/json.md"), "\n## Packets as lines of JSON\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, key := range got {
		if !strings.Contains(table, "`"+key+"`") {
			t.Errorf("docs/json.md does not have the key %s", key)
		}
	}
}
