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

	// Size is the number of bytes that it has taken, which shows whether an ending makes progress.
	// Any goroutine may call it.
	Size() int64

	// Close releases what it holds, even if it was never begun. It may be called again.
	Close() error
}

// A Live is an output that knows its accounts while the capture runs.
type Live interface {
	capture.Output

	// Accounts returns its accounts so far. session reads those of the session, on which they are
	// based. Any goroutine may call it.
	Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error)
}

// schemes are the kinds of output that a URL names, with the functions that open them. A kind is a
// row here, and a file of its own. notice takes notices, and does not wait.
var schemes = map[string]func(t *Target, o *Options, notice func(error)) (destination, error){
	SFlowScheme: openSFlow,
	"tcp":       openSender,
}

// A Target is the output that one -w names.
type Target struct {
	Name string   // as -w has it
	URL  *url.URL // nil = a file

	Format      file.Format // of a file or stream
	Compression file.Compression
}

// HasWeights reports whether the target can say for each packet how many it stands for.
func (t *Target) HasWeights() bool {
	return t.URL != nil && t.URL.Scheme == SFlowScheme || t.Format.HasWeights()
}

// Kind says what the target is, for messages.
func (t *Target) Kind() string {
	if t.URL != nil {
		return "stream"
	}
	return "file"
}

func (t *Target) IsStdout() bool { return t.URL == nil && frame.IsStdout(t.Name) }

// IsFile says whether the target is a file with a name.
func (t *Target) IsFile() bool { return t.URL == nil && !frame.IsStdout(t.Name) }

// schemePattern is how a URL begins.
var schemePattern = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://`)

// IsURL reports whether a -w names something else than a file.
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

// ReadTargets reads the value of every -w. --format applies to the file of a single -w. With
// several, it applies to those whose names do not show their format. It applies to streams, too.
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
	for _, named := range []func(*Target) bool{(*Target).IsStdout, (*Target).IsFile} {
		for i := range o.Targets {
			if named(&o.Targets[i]) {
				o.Write = o.Targets[i].Name
			}
		}
	}
	return o.checkAnonymize()
}

// otherSuffixes end the names of other programs' compressed files and archives.
var otherSuffixes = []string{".bz2", ".xz", ".lz4", ".lzma", ".lzo", ".z", ".zip", ".7z", ".br", ".tgz", ".tar"}

// wordSuffix matches a suffix that names a format, but not the number of a version or a time.
var wordSuffix = regexp.MustCompile(`^\.[A-Za-z][A-Za-z0-9]*$`)

// checkSuffix refuses a name that promises another format than the file would have. chosen says
// that --format was given.
func checkSuffix(path string, chosen bool) error {
	stem, format, _ := file.SplitName(path)
	suffix := filepath.Ext(stem)
	at, err := os.Stat(path)
	switch {
	case format != "" || suffix == filepath.Base(stem) || err == nil && !at.Mode().IsRegular():
		return nil
	case slices.Contains(otherSuffixes, strings.ToLower(suffix)):
		stem = strings.TrimSuffix(stem, suffix)
		return fmt.Errorf("-w %s: xdpcap does not compress into %s: say -w %s or -w %s", path, suffix, message.ShellWord(stem+".gz"), message.ShellWord(stem+".zst"))
	case chosen || slices.Contains(captureSuffixes, strings.ToLower(suffix)) || !wordSuffix.MatchString(suffix):
		return nil
	}
	return fmt.Errorf("-w %s: no format has the suffix %s: say %s, or --format with one of these", path, suffix, suffixChoice())
}

// File is the target to which the flags about files apply. These flags are refused if -w names
// several files.
func (o *Options) File() *Target {
	return &o.Targets[slices.IndexFunc(o.Targets, func(t Target) bool { return t.Name == o.Write })]
}

// Files are the names of the targets that are files with a name.
func (o *Options) Files() (names []string) {
	for i := range o.Targets {
		if o.Targets[i].IsFile() {
			names = append(names, o.Targets[i].Name)
		}
	}
	return names
}

// WritesStdout says whether a -w is standard output.
func (o *Options) WritesStdout() bool {
	return slices.ContainsFunc(o.Targets, func(t Target) bool { return t.IsStdout() })
}

// SizeOf is the number of bytes that all destinations together have taken.
func SizeOf(all []destination) (bytes int64) {
	for _, d := range all {
		bytes += d.Size()
	}
	return bytes
}

// WritesTo says whether a -w has a URL of this scheme.
func (o *Options) WritesTo(scheme string) bool {
	return slices.ContainsFunc(o.Targets, func(t Target) bool { return t.URL != nil && t.URL.Scheme == scheme })
}

// A Named is an output of the capture.
type Named struct {
	Live
	Name string // as -w has it
}
