package outputs

import "strings"

// captureSuffixes end the names of capture files, or come before .gz and .zst.
var captureSuffixes = []string{".pcapng", ".pcap", ".cap", ".ntar", ".dmp"}

// IsCaptureName reports whether an argument ends as the names of capture files do.
func IsCaptureName(arg string) bool {
	if strings.ContainsAny(arg, " \t()") {
		return false // a filter in one argument
	}
	for _, packed := range []string{".gz", ".zst"} {
		if name, ok := strings.CutSuffix(arg, packed); ok {
			return name != ""
		}
	}
	for _, suffix := range captureSuffixes {
		if strings.HasSuffix(arg, suffix) {
			return true
		}
	}
	return false
}
