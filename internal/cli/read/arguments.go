package read

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// splitArguments divides arguments into files and the words of a filter. dash is the number of
// arguments before a --, or -1.
//
// The first argument is a file. The filter begins with the next argument that is not one: a file
// has a capture file's name, or it exists and its name is not a keyword of filters. A directory of
// captures may have a file called ip, but tcpdump's users expect the keyword.
func splitArguments(args []string, dash int) (files, words []string) {
	if dash >= 0 {
		return args[:dash], args[dash:]
	}
	for i, arg := range args {
		if i > 0 && !namesFile(arg) {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

// newestCapture is the newest capture file of this directory, or else an example of a name.
func newestCapture() string {
	newest, at := "out.pcapng", time.Time{}
	entries, _ := os.ReadDir(".")
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && outputs.IsCaptureName(e.Name()) && info.ModTime().After(at) {
			newest, at = e.Name(), info.ModTime()
		}
	}
	return newest
}

// namesFile reports whether an argument after the first is a file, or a stream.
func namesFile(arg string) bool {
	if arg == "-" || streamURL(arg) != nil || outputs.IsCaptureName(arg) {
		return true
	}
	if filter.IsKeyword(arg) {
		return false
	}
	_, err := os.Stat(arg)
	return err == nil
}

// explainWords replaces the error of a faulty filter whose first word was probably meant as a file.
func explainWords(err error, words []string) error {
	if errors.As(err, new(*filter.Error)) && len(words) > 0 && strings.Contains(words[0], "/") && !strings.ContainsAny(words[0], " \t()") {
		return fmt.Errorf("%s is neither a file nor a filter", words[0])
	}
	return err
}
