package frame

import "runtime/debug"

// version is set by the Makefile. It is empty in a binary of `go install`, which has the version of
// its module.
var version = ""

// Version is that of this binary, such as 0.1.0, or (devel) in a binary that was built without one.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
