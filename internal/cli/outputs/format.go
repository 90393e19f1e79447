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
	return usageOf(file.Format.About, ", or ", "; .gz or .zst after that compresses")
}

// PrintedFormatUsage is the help of --format of a command that prints packets in text formats.
func PrintedFormatUsage() string {
	return usageOf(func(f file.Format) string {
		if f.IsText() {
			return "which is printed without -w"
		}
		return ""
	}, " or ", "")
}

// usageOf lists the formats with a remark about each, before the last with this word.
func usageOf(remark func(file.Format) string, or, more string) string {
	var all []string
	for _, f := range file.Formats() {
		text := f.String()
		if about := remark(f); about != "" {
			text += ", " + about
		}
		all = append(all, text)
	}
	return "`format` of the file or stream: " + either(all, or) + " (default: by the file's suffix, else pcapng" + more + ")"
}

// FormatChoice lists the formats in the example of a name: pcapng|pcap|json.
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

// Text is the value of --format; ok means that it is a text format, which can be printed.
func (o *Options) Text() (f file.Format, ok bool) {
	f, err := file.ParseFormat(o.Format)
	return f, err == nil && f.IsText()
}

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
