package outputs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/escape"
)

// rotationOptions are the flags about several files: -C, -G, -W and -z are tcpdump's, -a and -b
// dumpcap's.
type rotationOptions struct {
	size   frame.Size
	Every  time.Duration
	files  uint64
	ends   []string // -a
	begins []string // -b

	maxBytes, minFree frame.Size

	atomic, PrintFiles bool
	noOverwrite        bool
	command            string

	firstNumber int // how many numbers a ring skips, because earlier runs have used them
}

// Flags defines them.
func (o *rotationOptions) Flags(f *pflag.FlagSet) {
	o.size = frame.Size{Unit: 1e6}
	o.maxBytes, o.minFree = frame.Size{Unit: 1}, frame.Size{Unit: 1}
	f.VarP(&o.size, "file-size", "C", "begin the next file (FILE1, FILE2, ...) at this `size`: a number of million bytes, or 100M for 100 MiB")
	f.VarP((*frame.Duration)(&o.Every), "rotate-seconds", "G", "begin the next file after this `time`; the name of -w must have a time, as for strftime(3): %F_%T.pcapng")
	f.Uint64VarP(&o.files, "file-count", "W", 0, "with -C, overwrite the oldest of `N` files; with --ring, remove the oldest; with -G, end after N files")
	f.StringArrayVarP(&o.begins, "ring-buffer", "b", nil, "as in dumpcap, begin the next file (FILE_00001_TIME) after `key:value`: filesize:kB, duration:s, interval:s or packets:N; files:N keeps the last N files")
	f.StringArrayVarP(&o.ends, "autostop", "a", nil, "as in dumpcap, end after `key:value`: duration:s, filesize:kB, files:N or packets:N")
	f.Var(&o.maxBytes, "max-bytes", "let all files together take at most this `size`; then end, or in a ring of -W or -b files remove the oldest")
	f.Var(&o.minFree, "min-free", "leave this `size` free on the disk; then end with an error, or in a ring of files remove the oldest")
	f.BoolVar(&o.atomic, "atomic", false, "call a file FILE.partial until it is finished")
	f.BoolVar(&o.noOverwrite, "no-overwrite", false, "do not overwrite files that are there already, except those of the same ring")
	frame.NameVar(f, &o.command, "postrotate-command", "z", "run this `command` with the name of each finished file, without a shell: -z gzip")
	f.BoolVar(&o.PrintFiles, "print-files", false, "print the name of each finished file to standard output")
}

// rotationFlags are the flags that by themselves ask for several files. -a does so only with some
// values.
var rotationFlags = []struct{ name, shown string }{
	{"file-size", "-C"}, {"rotate-seconds", "-G"}, {"file-count", "-W"}, {"ring-buffer", "-b"}, {"max-bytes", "--max-bytes"},
	{"min-free", "--min-free"}, {"atomic", "--atomic"}, {"postrotate-command", "-z"}, {"print-files", "--print-files"},
}

// givenRotation returns the first of these flags that was given, as messages name it, or "". given
// says which flags were set.
func givenRotation(given func(flag string) bool) string {
	for _, flag := range rotationFlags {
		if given(flag.name) {
			return flag.shown
		}
	}
	return ""
}

// IdleRotation returns the flags about several files that have no effect. Without a -w FILE these
// are all, and without -C and -G it is -W. With a recorder these are all that do not limit its
// recordings.
func (o *Options) IdleRotation(recorder bool) (names []string) {
	r := &o.Rotate
	for _, flag := range rotationFlags {
		idle := len(o.Files()) == 0 || flag.name == "file-count" && r.size.Bytes == 0 && r.Every == 0
		if recorder {
			idle = !limitsRecordings[flag.name]
		}
		if idle {
			names = append(names, flag.name)
		}
	}
	return names
}

// Rotation is the rotation that the flags ask for; nil = one plain file. given says which flags
// were set.
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
	tcpdumps := given("file-size") || given("rotate-seconds") || given("file-count")
	if err := r.checkFileCount(given); err != nil {
		return nil, err
	}
	rotates := rotation.Size > 0 || rotation.Packets > 0 || rotation.Period > 0
	switch {
	case asked == "":
		return nil, nil
	case o.Write == "":
		return nil, fmt.Errorf("%s: there is no file: add -w FILE", asked)
	case len(o.Files()) > 1:
		return nil, fmt.Errorf("%s: -w names %d files, and only one can go on in further files: choose it", asked, len(o.Files()))
	case frame.IsStdout(o.Write):
		return nil, fmt.Errorf("%s: standard output cannot go on in further files: write to a file with -w FILE", asked)
	case given("file-size") && r.size.Bytes == 0:
		return nil, errors.New("-C 0: must be at least 1, which is a million bytes")
	case r.Every%time.Second != 0:
		return nil, fmt.Errorf("-G %v: must be whole seconds", r.Every)
	case r.Every > 0 && rotation.Files != 1 && (r.files != 1 || r.size.Bytes > 0) && !changesEach(o.Write, r.Every):
		return nil, r.sameNames(o.Write)
	case given("file-count") && r.size.Bytes == 0 && r.Every == 0:
		return nil, errors.New("-W: nothing says when the next file begins: add -C SIZE or -G SECONDS")
	case tcpdumps && len(r.begins) > 0:
		return nil, errors.New("-b with -C, -G or -W: they name files in different ways: choose dumpcap's flag or tcpdump's")
	case rotation.Keep > 0 && !rotates:
		return nil, errors.New("-b files: nothing says when the next file begins: add -b filesize:kB, -b duration:seconds or the like")
	case rotation.Files > 1 && !rotates:
		return nil, errors.New("-a files: nothing says when the next file begins: add -b filesize:kB, -b duration:seconds or the like")
	case r.PrintFiles && o.WritesStdout():
		return nil, errors.New("--print-files and -w - both need standard output: choose one")
	case r.PrintFiles && o.Print:
		return nil, errors.New("--print-files and --print both need standard output: choose one")
	}
	o.name(rotation)
	if rotation.Keep > 0 {
		if err := r.checkCompressor(o.Write); err != nil {
			return nil, err
		}
	}
	return rotation, nil
}

// compressors are commands, with the suffix that each adds to the name of a file.
var compressors = map[string]string{
	"gzip": ".gz", "pigz": ".gz", "zstd": ".zst", "zstdmt": ".zst", "bzip2": ".bz2", "pbzip2": ".bz2", "lbzip2": ".bz2",
	"xz": ".xz", "pixz": ".xz", "lzma": ".lzma", "lz4": ".lz4", "lzop": ".lzo", "compress": ".Z",
}

// checkCompressor refuses a command whose files a ring would not know and so never remove.
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
		instead = fmt.Sprintf("say -w %s, which compresses packets as they are written", escape.ShellWord(path+better))
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

// Name sets the names of the files, and with tcpdump's flags their number.
func (o *Options) name(rotation *file.Rotation) {
	r := &o.Rotate
	switch {
	case len(r.begins) > 0:
		rotation.Path = r.dumpcapName(o.Write)
		return
	case r.Every > 0:
		rotation.Origin = time.Now().Truncate(time.Second)
		if rotation.Files == 0 && r.size.Bytes == 0 {
			rotation.Files = int(r.files)
		}
	case r.size.Bytes > 0:
		rotation.Keep = int(r.files)
	}
	rotation.Path = r.tcpdumpName(o.Write)
}

// tcpdumpName returns tcpdump's names: with -G a time, and with -C a number from 0 on, with as many
// digits as -W needs. Without -W the number 0 is omitted. A number comes before .gz or .zst, as
// with tcpdump -z gzip.
func (r *rotationOptions) tcpdumpName(path string) func(file.Place) string {
	digits := r.digits()
	return func(p file.Place) string {
		name := path
		if r.Every > 0 {
			name = strftime.Format(path, p.Period.Local())
		}
		n := r.firstNumber + p.InPeriod
		if r.files > 0 {
			n %= int(r.files)
		}
		if r.size.Bytes == 0 || n == 0 && digits == 0 {
			return name
		}
		stem, format, compression := file.SplitName(name)
		return fmt.Sprintf("%s%s%0*d%s", stem, format, digits, n, compression)
	}
}

// FirstName is how the first file is called that begins now.
func (r *rotationOptions) FirstName(path string) string {
	return r.tcpdumpName(path)(file.Place{Period: time.Now()})
}

// sameNames is the error of a name that files of -G have in common.
func (r *rotationOptions) sameNames(path string) error {
	if hasTime(path) {
		return fmt.Errorf("-G %v: -w %s can name two files in a row alike, and the second would overwrite the first: "+
			"say %%F_%%T in the name, or -b duration:%.0f instead of -G, which numbers the files", r.Every, path, r.Every.Seconds())
	}
	stem, format, compression := file.SplitName(path)
	return fmt.Errorf("-G %v: -w %s has no time in it, so each file would overwrite the one before: "+
		"say -w %s, or -b duration:%.0f instead of -G, which numbers the files",
		r.Every, path, escape.ShellWord(stem+"_%F_%T"+format+compression), r.Every.Seconds())
}

// hasTime says whether the name of a file changes with the time.
func hasTime(path string) bool {
	one := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	other := time.Date(2012, 11, 30, 17, 48, 59, 0, time.UTC)
	return strftime.Format(path, one) != strftime.Format(path, other)
}

// changesEach says whether each file has another name than the one before, whenever the first file
// begins. It compares two files that begin on 1 January 2001, a Monday, at midnight and one period
// later. A minute, an hour, a day, a week, a month and a year begin at that midnight. So if the
// finest of these in the name is longer than a period, the second file begins within it, too.
func changesEach(path string, period time.Duration) bool {
	midnight := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	return strftime.Format(path, midnight) != strftime.Format(path, midnight.Add(period))
}

// digits is the number of digits in tcpdump's numbers; 0 = as many as they need.
func (r *rotationOptions) digits() (digits int) {
	for n := int(r.files) - 1; n > 0; n /= 10 {
		digits++
	}
	return digits
}

// Lasting is a path in the directory that contains all files of this name. The names of directories
// may also have a time in them.
func (r *rotationOptions) Lasting(path string) string {
	if r.Every == 0 {
		return path
	}
	for dir := filepath.Dir(path); strings.Contains(dir, "%"); dir = filepath.Dir(dir) {
		path = dir
	}
	return path
}

// dumpcapName returns dumpcap's names: a number from 1 on and a time before the suffix.
func (r *rotationOptions) dumpcapName(path string) func(file.Place) string {
	stem, format, compression := file.SplitName(path)
	return func(p file.Place) string {
		return fmt.Sprintf("%s_%05d_%s%s%s", stem, r.firstNumber+p.Number+p.Passed+1, p.Began.Local().Format("20060102150405"), format, compression)
	}
}

// autostop reads -a.
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

// ringBuffer reads -b.
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
