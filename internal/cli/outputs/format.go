package outputs

import (
	"strings"

	"github.com/xdpcap/xdpcap/capture/file"
)

// formatNames are the values of --format.
func formatNames() (names []string) {
	for _, f := range file.Formats() {
		names = append(names, f.String())
	}
	return names
}

// formatUsage is the help of --format.
func formatUsage() string {
	var all []string
	for _, f := range file.Formats() {
		text := f.String()
		if f.About() != "" {
			text += ", " + f.About()
		}
		all = append(all, text)
	}
	return "`format` of the file or stream: " + either(all, ", or ") + " (default: by the file's suffix, else pcapng; .gz or .zst after that compresses)"
}

// PrintedFormatUsage is the help of --format where it prints what may be printed.
func PrintedFormatUsage() string {
	var all []string
	for _, f := range file.Formats() {
		text := f.String()
		if f.IsText() {
			text += ", which is printed without -w"
		}
		all = append(all, text)
	}
	return "`format` of the file or stream: " + either(all, " or ") + " (default: by the file's suffix, else pcapng)"
}

// FormatChoice are the formats in the example of a name: pcapng|pcap|json.
func FormatChoice() string { return strings.Join(formatNames(), "|") }

// suffixChoice are the suffixes of all formats.
func suffixChoice() string {
	var all []string
	for _, f := range file.Formats() {
		all = append(all, f.Suffixes()...)
	}
	return either(all, " or ")
}

// either lists words, with or before the last one.
func either(words []string, or string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + or + words[last]
}

// Text is the format of --format if it has lines of text, which may be printed.
func (o *Options) Text() (f file.Format, ok bool) {
	f, err := file.ParseFormat(o.Format)
	return f, err == nil && f.IsText()
}
