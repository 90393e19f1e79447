package file

import (
	"path/filepath"
	"slices"
	"strings"
)

// FormatByName returns the format and the compression by the suffixes of a file's name: one of
// [Format.Suffixes], anything else is pcapng; then .gz or .zst.
func FormatByName(path string) (Format, Compression) {
	_, suffix, compression := SplitName(path)
	f, c := PCAPNG, NoCompression
	for _, of := range Formats() {
		if slices.Contains(of.kind().suffixes, strings.ToLower(suffix)) {
			f = of
		}
	}
	switch strings.ToLower(compression) {
	case ".gz":
		c = Gzip
	case ".zst":
		c = Zstd
	}
	return f, c
}

// HasFormatName reports whether a file's name has the suffix of a format.
func HasFormatName(path string) bool {
	_, format, _ := SplitName(path)
	return format != ""
}

// SplitName splits the suffixes for the format and the compression of a capture file off a path.
// format is one of [Format.Suffixes] or "", and compression ".gz", ".zst" or "", in any case. The
// three parts together are the path.
func SplitName(path string) (stem, format, compression string) {
	stem, compression = cutSuffix(path, ".gz", ".zst")
	var suffixes []string
	for _, f := range Formats() {
		suffixes = append(suffixes, f.kind().suffixes...)
	}
	stem, format = cutSuffix(stem, suffixes...)
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
