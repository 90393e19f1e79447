package outputs

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
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// A destination is an output that -w names. It is opened before anything is attached.
type destination interface {
	Live

	// Size is the number of bytes that it has accepted, which shows whether an ending makes
	// progress. Any goroutine may call it.
	Size() int64

	// Close releases all resources, even if the output was never begun. It may be called again.
	Close() error
}

// A Live is an output with accounts while the capture runs.
type Live interface {
	capture.Output
	accounted
}

type accounted interface {
	// Accounts returns the output's accounts so far. session reads the accounts of the session, on
	// which they are based. Any goroutine may call it.
	Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error)
}

// schemes are the kinds of output that a URL names, with the functions that open them. Each kind is
// a row here and has a file. notice must not wait.
var schemes = map[string]func(t *Target, o *Options, notice func(error)) (destination, error){
	SFlowScheme: openSFlow,
	"tcp":       openSender,
}

// A Target is the value of one -w.
type Target struct {
	Name string   // as given
	URL  *url.URL // nil = a file

	Format      file.Format // of a file or stream
	Compression file.Compression
}

// HasWeights reports whether the target's format has a weight for each packet.
func (t *Target) HasWeights() bool {
	return t.URL != nil && t.URL.Scheme == SFlowScheme || t.Format.HasWeights()
}

// Kind is the word for the target in messages.
func (t *Target) Kind() string {
	if t.URL != nil {
		return "stream"
	}
	return "file"
}

// IsStdout reports whether the target is standard output.
func (t *Target) IsStdout() bool { return t.URL == nil && frame.IsStdout(t.Name) }

// IsFile reports whether the target is a file with a name.
func (t *Target) IsFile() bool { return t.URL == nil && !frame.IsStdout(t.Name) }

// schemePattern matches the beginning of a URL.
var schemePattern = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://`)

// IsURL reports whether a value of -w is a URL.
func IsURL(text string) bool { return schemePattern.MatchString(text) }

// parseTarget reads the value of a -w.
func parseTarget(text string) (Target, error) {
	t := Target{Name: text}
	scheme := schemePattern.FindStringSubmatch(text)
	if scheme == nil {
		if strings.HasSuffix(text, "/") {
			return t, fmt.Errorf("-w %s: it is a directory: name a file in it: -w %sout.pcapng", text, text)
		}
		if !frame.IsStdout(text) {
			t.Format, t.Compression = file.FormatByName(text)
		}
		return t, nil
	}
	if schemes[scheme[1]] == nil {
		known := strings.Join(slices.Sorted(maps.Keys(schemes)), ", ")
		return t, fmt.Errorf("-w %s: unknown kind of output %s (known are %s); for a file write ./%s", text, scheme[1], known, text)
	}
	var err error
	if t.URL, err = url.Parse(text); err != nil {
		return t, fmt.Errorf("-w %s: %w", text, errors.Unwrap(err))
	}
	return t, nil
}

// ReadTargets parses all values of -w. --format applies to streams, and to the file of a single -w;
// of several files only to those whose names have no format. given reports whether a flag was set.
func (o *Options) ReadTargets(given func(flag string) bool) error {
	format, err := file.PCAPNG, error(nil)
	if given("format") {
		if format, err = file.ParseFormat(o.Format); err != nil {
			return fmt.Errorf("--format: %w", err)
		}
	}
	o.Live.Format = format
	o.Targets, o.Write = nil, ""
	for i, text := range o.Writes {
		if slices.Contains(o.Writes[:i], text) {
			return fmt.Errorf("-w %s: is given twice", text)
		}
		t, err := parseTarget(text)
		if err == nil && t.IsFile() {
			err = checkSuffix(text, given("format"))
		}
		if err != nil {
			return err
		}
		if given("format") && (len(o.Writes) == 1 || !t.IsFile() || !file.HasFormatName(text)) {
			t.Format = format
		}
		o.Targets = append(o.Targets, t)
	}
	if format.IsText() && (o.Live.Serve != "" || o.WritesTo("tcp")) {
		return fmt.Errorf("--format %v: packets are sent as pcapng or pcap: omit it, or choose one of these", format)
	}
	for i := range o.Targets {
		if t := &o.Targets[i]; t.IsFile() || t.IsStdout() && o.Write == "" {
			o.Write = t.Name
		}
	}
	return o.checkAnonymize()
}

// otherSuffixes end the names of other programs' compressed files and archives.
var otherSuffixes = []string{".bz2", ".xz", ".lz4", ".lzma", ".lzo", ".z", ".zip", ".7z", ".br", ".tgz", ".tar"}

// wordSuffix matches a suffix that could name a format, but not a part of a version or a time.
var wordSuffix = regexp.MustCompile(`^\.[A-Za-z][A-Za-z0-9]*$`)

// checkSuffix refuses a name with the suffix of another format than the file would have. hasFormat
// means that --format was given.
func checkSuffix(path string, hasFormat bool) error {
	stem, format, _ := file.SplitName(path)
	suffix := filepath.Ext(stem)
	info, err := os.Stat(path)
	isDevice := err == nil && !info.Mode().IsRegular()
	switch {
	case format != "" || suffix == filepath.Base(stem) || isDevice:
		return nil
	case slices.Contains(otherSuffixes, strings.ToLower(suffix)):
		stem = strings.TrimSuffix(stem, suffix)
		return fmt.Errorf("-w %s: xdpcap does not compress into %s: say -w %s or -w %s", path, suffix, message.ShellWord(stem+".gz"), message.ShellWord(stem+".zst"))
	case hasFormat || slices.Contains(captureSuffixes, strings.ToLower(suffix)) || !wordSuffix.MatchString(suffix):
		return nil
	}
	return fmt.Errorf("-w %s: no format has the suffix %s: say %s, or --format with one of these", path, suffix, suffixChoice())
}

// File is the target to which the flags about files apply. Rotation refuses these flags if -w names
// several files.
func (o *Options) File() *Target {
	return &o.Targets[slices.IndexFunc(o.Targets, func(t Target) bool { return t.Name == o.Write })]
}

// Files are the names of the targets that are files.
func (o *Options) Files() (names []string) {
	for i := range o.Targets {
		if o.Targets[i].IsFile() {
			names = append(names, o.Targets[i].Name)
		}
	}
	return names
}

// WritesStdout reports whether a -w is standard output.
func (o *Options) WritesStdout() bool {
	return slices.ContainsFunc(o.Targets, func(t Target) bool { return t.IsStdout() })
}

// WritesTo reports whether a -w has a URL of this scheme.
func (o *Options) WritesTo(scheme string) bool {
	return slices.ContainsFunc(o.Targets, func(t Target) bool { return t.URL != nil && t.URL.Scheme == scheme })
}

// A Named is an output of the capture.
type Named struct {
	Live
	Name string // as given with -w
}
