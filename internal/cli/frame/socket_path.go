package frame

import "strings"

// SocketPath returns the path of a socket in the file system: --serve and read take unix:PATH.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }
