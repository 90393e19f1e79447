package outfile

import (
	"path/filepath"
	"strings"
)

// SplitName takes the suffixes off a path by which a capture file's format and compression are
// known: format is ".pcapng", ".pcap", ".json", ".jsonl" or "", and compression ".gz", ".zst" or
// "". The three parts together are the path. Capital letters do not matter.
func SplitName(path string) (stem, format, compression string) {
	stem = path
	stem, compression = cutSuffix(stem, ".gz", ".zst")
	stem, format = cutSuffix(stem, ".pcapng", ".pcap", ".json", ".jsonl")
	return stem, format, compression
}

// cutSuffix takes one of the suffixes off the last element of a path, which keeps at least one
// byte.
func cutSuffix(path string, suffixes ...string) (stem, suffix string) {
	at := strings.LastIndexByte(path, '.')
	if at <= 0 || at <= len(path)-len(filepath.Base(path)) {
		return path, ""
	}
	for _, s := range suffixes {
		if strings.EqualFold(path[at:], s) {
			return path[:at], path[at:]
		}
	}
	return path, ""
}
