// Package version says which version of xdpcap this binary is.
package version

import "runtime/debug"

// number is set by the Makefile. It is empty in a binary of `go install`, which has the version of
// its module.
var number = ""

// String returns the version, such as 0.1.0, or (devel) in a binary that was built without one.
func String() string {
	if number != "" {
		return number
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
