package frame

import "runtime/debug"

// version is set by the Makefile. In a binary of `go install` it is empty, and the module has a
// version.
var version = ""

// Version is the version of this binary, such as 0.1.0, or (devel) if it was built without one.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
