package cli

import (
	"strings"
	"testing"
)

// Without --listen a command needs -i, and so do flags that cannot apply to all interfaces.
func TestAllInterfacesRefused(t *testing.T) {
	t.Parallel()
	const noInterface = "which interface? -i NAME; xdpcap interfaces lists them"
	for args, want := range map[string]string{
		"stats":                            noInterface,
		"count":                            noInterface,
		"latency":                          noInterface,
		"stats --listen :0 --action drop":  "--action drop needs a named interface: add -i NAME",
		"count --listen :0 --program lb":   "--program needs a named interface: add -i NAME",
		"latency --listen :0 --builtin":    "--builtin needs a named interface: add -i NAME",
		"latency --listen :0 --program lb": "--program needs a named interface: add -i NAME",
	} {
		root := NewRoot()
		root.SetArgs(strings.Fields(args))
		if err := root.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
