package outfile

import (
	"path/filepath"
	"strings"
)

// SplitName splits the suffixes for the format and the compression of a capture file off a path.
// format is ".pcapng", ".pcap", ".json", ".jsonl" or "", and compression ".gz", ".zst" or "", in
// any case. The three parts together are the path.
func SplitName(path string) (stem, format, compression string) {
	stem = path
	stem, compression = cutSuffix(stem, ".gz", ".zst")
	stem, format = cutSuffix(stem, ".pcapng", ".pcap", ".json", ".jsonl")
	return stem, format, compression
}

// cutSuffix cuts one of the suffixes off the last element of a path. At least one byte of the
// element remains.
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
