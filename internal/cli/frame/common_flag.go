package frame

import (
	"github.com/spf13/pflag"
)

// ListenVar defines the flag for the address at which a command serves its counters.
func ListenVar(f *pflag.FlagSet, address *string) {
	NameVar(f, address, "listen", "", "serve the counters to Prometheus at http://`address`/metrics: 127.0.0.1:9432, :9432")
}

// NoSandboxVar defines the flag of every command that gives up privileges.
func NoSandboxVar(f *pflag.FlagSet, off *bool) {
	f.BoolVar(off, "no-sandbox", false, "keep all privileges, instead of giving up those that are not needed once everything is open")
}

// ModeVar defines --xdp-mode for a command that attaches a program where none runs.
func ModeVar(f *pflag.FlagSet, mode *string) {
	f.StringVar(mode, "xdp-mode", "auto", "attach in this `mode`: native (in the driver), generic (in the stack), or auto (generic only where the driver has no native mode)")
	TakesWords(f, "xdp-mode", "auto", "native", "generic")
}
