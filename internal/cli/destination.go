package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A destination is an output that a -w names. It is opened before anything is attached.
type destination interface {
	liveOutput

	// Size is how many bytes it has taken, by which an ending is seen to go on. Any goroutine may
	// call it.
	Size() int64

	// Close releases what it holds, also where it was never begun. It may be called again.
	Close() error
}

// A liveOutput is an output that knows what has become of packets while the capture runs.
type liveOutput interface {
	capture.Output

	// Accounts returns its accounts so far, of the session's, which session reads. Any goroutine
	// may call it.
	Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error)
}

// A giver is a destination with files that are given to whom the process becomes.
type giver interface{ Give(uid, gid int) error }

// schemes are the kinds of output that are named by a URL, and what opens them: a kind is a row
// here, and a file of its own. Notices are told by notice, which does not wait.
var schemes = map[string]func(u *url.URL, o *outputOptions, notice func(error)) (destination, error){
	sflowScheme: openSFlow,
	"tcp":       openSender,
}

// A target is what one -w names.
type target struct {
	name string   // as -w has it
	url  *url.URL // nil = a file

	format      capture.Format // of a file
	compression capture.Compression
}

func (t *target) isStdout() bool { return t.url == nil && frame.IsStdout(t.name) }

// isFile tells whether the target is a file with a name.
func (t *target) isFile() bool { return t.url == nil && !frame.IsStdout(t.name) }

// schemePattern is how a URL begins.
var schemePattern = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://`)

// parseTarget reads the value of a -w.
func parseTarget(text string) (target, error) {
	t := target{name: text}
	scheme := schemePattern.FindStringSubmatch(text)
	if scheme == nil {
		if strings.HasSuffix(text, "/") {
			return t, fmt.Errorf("-w %s: it is a directory: name a file in it: -w %sout.pcapng", text, text)
		}
		if !frame.IsStdout(text) {
			t.format, t.compression = capture.FormatByName(text)
		}
		return t, nil
	}
	if schemes[scheme[1]] == nil {
		known := strings.Join(slices.Sorted(maps.Keys(schemes)), ", ")
		return t, fmt.Errorf("-w %s: no kind of output is called %s (there are: %s); ./%s is a file", text, scheme[1], known, text)
	}
	var err error
	if t.url, err = url.Parse(text); err != nil {
		return t, fmt.Errorf("-w %s: %w", text, errors.Unwrap(err))
	}
	return t, nil
}

// readTargets reads what every -w names. --format is for all files that -w names, or of several
// for those whose names do not tell their format.
func (o *outputOptions) readTargets(given func(flag string) bool) error {
	format, err := capture.PCAPNG, error(nil)
	if given("format") {
		if format, err = capture.ParseFormat(o.format); err != nil {
			return fmt.Errorf("--format: %w", err)
		}
	}
	o.targets, o.write = nil, ""
	for i, text := range o.writes {
		if slices.Contains(o.writes[:i], text) {
			return fmt.Errorf("-w %s: is given twice", text)
		}
		t, err := parseTarget(text)
		if err == nil && t.isFile() {
			err = checkSuffix(text, given("format"))
		}
		if err != nil {
			return err
		}
		if given("format") && (len(o.writes) == 1 || !t.isFile() || !capture.HasFormatName(text)) {
			t.format = format
		}
		o.targets = append(o.targets, t)
	}
	for _, named := range []func(*target) bool{(*target).isStdout, (*target).isFile} {
		for i := range o.targets {
			if named(&o.targets[i]) {
				o.write = o.targets[i].name
			}
		}
	}
	return nil
}

// otherSuffixes end the names of other programs' compressed files and archives.
var otherSuffixes = []string{".bz2", ".xz", ".lz4", ".lzma", ".lzo", ".z", ".zip", ".7z", ".br", ".tgz", ".tar"}

// wordSuffix is a suffix that says what is in a file, unlike the number of a version or a time.
var wordSuffix = regexp.MustCompile(`^\.[A-Za-z][A-Za-z0-9]*$`)

// checkSuffix refuses a name that promises something else than the file would have. chosen says
// that --format tells what the file is to have.
func checkSuffix(path string, chosen bool) error {
	stem, format, _ := outfile.SplitName(path)
	suffix := filepath.Ext(stem)
	at, err := os.Stat(path)
	switch {
	case format != "" || suffix == filepath.Base(stem) || err == nil && !at.Mode().IsRegular():
		return nil
	case slices.Contains(otherSuffixes, strings.ToLower(suffix)):
		stem = strings.TrimSuffix(stem, suffix)
		return fmt.Errorf("-w %s: xdpcap does not compress into %s: say -w %s.gz or -w %s.zst", path, suffix, stem, stem)
	case chosen || slices.Contains(captureSuffixes, strings.ToLower(suffix)) || !wordSuffix.MatchString(suffix):
		return nil
	}
	return fmt.Errorf("-w %s: no format has the suffix %s: say .pcapng, .pcap, .json or .jsonl, or --format with one of these", path, suffix)
}

// file is the target that the flags about files mean. They are refused where several are named.
func (o *outputOptions) file() *target {
	return &o.targets[slices.IndexFunc(o.targets, func(t target) bool { return t.name == o.write })]
}

// files are the names of the targets that are files with a name.
func (o *outputOptions) files() (names []string) {
	for i := range o.targets {
		if o.targets[i].isFile() {
			names = append(names, o.targets[i].name)
		}
	}
	return names
}

// writesStdout tells whether a -w is standard output.
func (o *outputOptions) writesStdout() bool {
	for i := range o.targets {
		if o.targets[i].isStdout() {
			return true
		}
	}
	return false
}

// sizeOf is how many bytes the destinations have taken together.
func sizeOf(all []destination) (bytes int64) {
	for _, d := range all {
		bytes += d.Size()
	}
	return bytes
}

// writesTo tells whether a -w has a URL of this scheme.
func (o *outputOptions) writesTo(scheme string) bool {
	return slices.ContainsFunc(o.targets, func(t target) bool { return t.url != nil && t.url.Scheme == scheme })
}

// A namedOutput is an output of the capture.
type namedOutput struct {
	liveOutput
	name string // as -w has it
}
