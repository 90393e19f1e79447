package outputs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// rotationOptions are the flags about several files: -C, -G, -W and -z are tcpdump's, -a and -b
// dumpcap's.
type rotationOptions struct {
	size   frame.Size    // -C
	Every  time.Duration // -G
	files  uint64        // -W
	ends   []string      // -a
	begins []string      // -b

	maxBytes, minFree frame.Size

	atomic, PrintFiles bool
	noOverwrite        bool
	command            string // -z

	firstNumber int // of the first file: earlier runs of the ring have used the numbers below
}

// Flags are the rows of the flags.
func (o *rotationOptions) Flags() []frame.Flag {
	o.size = frame.Size{Unit: 1e6}
	o.maxBytes, o.minFree = frame.Size{Unit: 1}, frame.Size{Unit: 1}
	return []frame.Flag{
		{Name: "file-size", Letter: "C", Value: &o.size,
			Help: "begin the next file (FILE1, FILE2, ...) at this `size`: a number of million bytes, or 100M for 100 MiB"},
		{Name: "rotate-seconds", Letter: "G", Value: &o.Every,
			Help: "begin the next file after this `time`; the name of -w must have a time, as for strftime(3): %F_%T.pcapng"},
		{Name: "file-count", Letter: "W", Value: &o.files,
			Help: "with -C, overwrite the oldest of `N` files; with --ring, remove the oldest; with -G, end after N files"},
		{Name: "ring-buffer", Letter: "b", Value: &o.begins,
			Help: "as in dumpcap, begin the next file (FILE_00001_TIME) after `key:value`: filesize:kB, duration:s, interval:s or packets:N; files:N keeps the last N files"},
		{Name: "autostop", Letter: "a", Value: &o.ends,
			Help: "as in dumpcap, end after `key:value`: duration:s, filesize:kB, files:N or packets:N"},
		{Name: "max-bytes", Value: &o.maxBytes,
			Help: "let all files together take at most this `size`; then end, or with -W or -b files:N remove the oldest"},
		{Name: "min-free", Value: &o.minFree, Help: "leave this `size` free on the disk; then end with an error, or in a ring of files remove the oldest"},
		{Name: "atomic", Value: &o.atomic, Help: "call a file FILE.partial until it is finished"},
		{Name: "no-overwrite", Value: &o.noOverwrite, Help: "do not overwrite files that are there already, except those of the same ring"},
		{Name: "postrotate-command", Letter: "z", Value: (*frame.Name)(&o.command), Settings: frame.GrantsRights,
			Help: "run this `command` with the name of each finished file, without a shell: -z gzip"},
		{Name: "print-files", Value: &o.PrintFiles, Help: "print the name of each finished file to standard output"},
	}
}

// rotationFlags are the flags that always request several files: -a does so only with some values,
// and --no-overwrite never.
func rotationFlags() []frame.Flag {
	return slices.DeleteFunc(new(rotationOptions).Flags(), func(f frame.Flag) bool { return f.Name == "autostop" || f.Name == "no-overwrite" })
}

// givenRotation returns the first of rotationFlags that was given, as messages name it, or "".
// given reports whether a flag was set.
func givenRotation(given func(flag string) bool) string {
	for _, flag := range rotationFlags() {
		if given(flag.Name) {
			return flag.String()
		}
	}
	return ""
}

// IdleRotation returns the flags about several files that have no effect: all without a -w FILE, -W
// without -C and -G, and with a recorder all but limitsRecordings.
func (o *Options) IdleRotation(recorder bool) (names []string) {
	r := &o.Rotate
	for _, flag := range rotationFlags() {
		idle := len(o.Files()) == 0 || flag.Name == "file-count" && r.size.Bytes == 0 && r.Every == 0
		if recorder {
			idle = !limitsRecordings[flag.Name]
		}
		if idle {
			names = append(names, flag.Name)
		}
	}
	return names
}

// Rotation is the rotation that the flags request; nil = one plain file. given reports whether a
// flag was set.
func (o *Options) Rotation(given func(flag string) bool) (*file.Rotation, error) {
	r := &o.Rotate
	asked := givenRotation(given)
	rotation := &file.Rotation{
		Size:     r.size.Bytes,
		Period:   r.Every,
		MaxBytes: r.maxBytes.Bytes,
		MinFree:  r.minFree.Bytes,
		Atomic:   r.atomic,
	}
	if err := o.autostop(rotation); err != nil {
		return nil, err
	}
	if len(r.ends) > 0 && (rotation.Files > 0 || rotation.Size > r.size.Bytes) {
		asked = cmp.Or(asked, "-a")
	}
	if err := r.ringBuffer(rotation); err != nil {
		return nil, err
	}
	if err := r.checkFileCount(given); err != nil || asked == "" {
		return nil, err
	}
	if err := o.checkRotation(rotation, asked, given); err != nil {
		return nil, err
	}
	o.setNames(rotation)
	if rotation.Keep > 0 {
		if err := r.checkCompressor(o.Write); err != nil {
			return nil, err
		}
	}
	return rotation, nil
}

// checkRotation finds mistakes in the flags about several files. asked is the first of these flags.
func (o *Options) checkRotation(rotation *file.Rotation, asked string, given func(flag string) bool) error {
	r := &o.Rotate
	tcpdumps := given("file-size") || given("rotate-seconds") || given("file-count")
	rotates := rotation.Size > 0 || rotation.Packets > 0 || rotation.Period > 0
	switch {
	case o.Write == "":
		return fmt.Errorf("%s: there is no file: add -w out.pcapng", asked)
	case len(o.Files()) > 1:
		return fmt.Errorf("%s: -w names %d files, and only one can go on in further files: choose it", asked, len(o.Files()))
	case frame.IsStdout(o.Write):
		return fmt.Errorf("%s: standard output cannot go on in further files: write to a file with -w out.pcapng", asked)
	case given("file-size") && r.size.Bytes == 0:
		return errors.New("-C 0: must be at least 1, which is a million bytes")
	case r.Every%time.Second != 0:
		return fmt.Errorf("-G %v: must be whole seconds", r.Every)
	case r.Every > 0 && rotation.Files != 1 && (r.files != 1 || r.size.Bytes > 0) && !changesEach(o.Write, r.Every):
		return r.sameNames(o.Write)
	case given("file-count") && r.size.Bytes == 0 && r.Every == 0:
		return errors.New("-W: nothing says when the next file begins: add -C SIZE or -G SECONDS")
	case tcpdumps && len(r.begins) > 0:
		return errors.New("-b with -C, -G or -W: they name files in different ways: choose dumpcap's flag or tcpdump's")
	case rotation.Keep > 0 && !rotates:
		return errors.New("-b files: nothing says when the next file begins: add -b filesize:kB, -b duration:seconds or the like")
	case rotation.Files > 1 && !rotates:
		return errors.New("-a files: nothing says when the next file begins: add -b filesize:kB, -b duration:seconds or the like")
	case r.PrintFiles && o.WritesStdout():
		return errors.New("--print-files and -w - both need standard output: choose one")
	case r.PrintFiles && o.Print:
		return errors.New("--print-files and --print both need standard output: choose one")
	}
	return nil
}

// compressors are commands with the suffix that each adds to the name of a file.
var compressors = map[string]string{
	"gzip": ".gz", "pigz": ".gz", "zstd": ".zst", "zstdmt": ".zst", "bzip2": ".bz2", "pbzip2": ".bz2", "lbzip2": ".bz2",
	"xz": ".xz", "pixz": ".xz", "lzma": ".lzma", "lz4": ".lz4", "lzop": ".lzo", "compress": ".Z",
}

// checkCompressor refuses a command that renames files, which a ring could not remove later.
func (r *rotationOptions) checkCompressor(path string) error {
	suffix, ok := compressors[filepath.Base(r.command)]
	if !ok {
		return nil
	}
	instead := "omit -z"
	if _, _, compression := file.SplitName(path); compression == "" {
		better := suffix
		if better != ".gz" {
			better = ".zst"
		}
		instead = fmt.Sprintf("say -w %s, which compresses packets as they are written", message.ShellWord(path+better))
	}
	return fmt.Errorf("-z %s and a ring of files: the ring removes only its own files, and every FILE%s would stay: %s", r.command, suffix, instead)
}

// checkFileCount finds mistakes in -W.
func (r *rotationOptions) checkFileCount(given func(flag string) bool) error {
	switch {
	case given("file-count") && r.files == 0:
		return errors.New("-W 0: must be at least 1")
	case r.files > 1e6:
		return fmt.Errorf("-W %d: must be at most a million", r.files)
	}
	return nil
}

// autostop applies the values of -a, to the rotation or to Duration and Count.
func (o *Options) autostop(rotation *file.Rotation) error {
	for _, text := range o.Rotate.ends {
		c, err := frame.ParseCriterion("-a", text, map[string]string{
			"duration": "seconds", "filesize": "kB", "files": "files", "packets": "packets",
		})
		if err != nil {
			return err
		}
		switch c.Key {
		case "duration":
			if d := c.Duration(); o.Duration == 0 || d < o.Duration {
				o.Duration = d
			}
		case "packets":
			if n := c.Whole(); o.Count == 0 || n < o.Count {
				o.Count, o.Counted = n, "-a "+text
			}
		case "files":
			rotation.Files = int(c.Whole())
		case "filesize":
			rotation.Size = c.Bytes
			if len(o.Rotate.begins) == 0 && rotation.Files == 0 {
				rotation.Files = 1
			}
		}
	}
	return nil
}

// ringBuffer applies the values of -b.
func (r *rotationOptions) ringBuffer(rotation *file.Rotation) error {
	for _, text := range r.begins {
		c, err := frame.ParseCriterion("-b", text, map[string]string{
			"duration": "seconds", "interval": "seconds", "filesize": "kB", "files": "files", "packets": "packets",
			"printname": "stdout",
		})
		if err != nil {
			return err
		}
		switch c.Key {
		case "duration", "interval":
			if rotation.Period != 0 {
				return errors.New("-b duration and -b interval: choose one, once")
			}
			rotation.Period = c.Duration()
			if c.Key == "interval" {
				if rotation.Period%time.Second != 0 {
					return fmt.Errorf("-b %s: must be whole seconds", text)
				}
				rotation.Origin = time.Unix(0, 0)
			}
		case "filesize":
			rotation.Size = c.Bytes
		case "packets":
			rotation.Packets = c.Whole()
		case "files":
			rotation.Keep = int(c.Whole())
		case "printname":
			r.PrintFiles = true
		}
	}
	return nil
}
