package outputs

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/message"
)

// NamesTimes reports whether the names of files have the time at which they begin.
func (r *rotationOptions) NamesTimes() bool { return len(r.begins) > 0 || r.Every > 0 }

// setNames sets the names of the files, and with tcpdump's flags their number.
func (o *Options) setNames(rotation *file.Rotation) {
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

// tcpdumpName returns a function that makes tcpdump's names: with -G a time, and with -C a number
// from 0 on, with as many digits as -W needs. Without -W the number 0 is omitted. The number comes
// before .gz or .zst, as with tcpdump -z gzip.
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

// FirstName is the name of the first file, if it begins now.
func (r *rotationOptions) FirstName(path string) string {
	return r.tcpdumpName(path)(file.Place{Period: time.Now()})
}

// sameNames is the error of a name that two consecutive files of -G can share.
func (r *rotationOptions) sameNames(path string) error {
	if hasTime(path) {
		return fmt.Errorf("-G %v: -w %s can name two files in a row alike, and the second would overwrite the first: "+
			"say %%F_%%T in the name, or -b duration:%.0f instead of -G, which numbers the files", r.Every, path, r.Every.Seconds())
	}
	stem, format, compression := file.SplitName(path)
	return fmt.Errorf("-G %v: -w %s has no time in it, so each file would overwrite the one before: "+
		"say -w %s, or -b duration:%.0f instead of -G, which numbers the files",
		r.Every, path, message.ShellWord(stem+"_%F_%T"+format+compression), r.Every.Seconds())
}

// hasTime reports whether the name of a file has a conversion of strftime(3) for a time.
func hasTime(path string) bool {
	one := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	other := time.Date(2012, 11, 30, 17, 48, 59, 0, time.UTC)
	return strftime.Format(path, one) != strftime.Format(path, other)
}

// changesEach reports whether each file has another name than the one before, at any time. It
// compares the names of two files that begin on 1 January 2001, a Monday, at midnight and one
// period later. Minute, hour, day, week, month and year all begin at that midnight: so if the
// finest unit in the name is longer than a period, both files begin in the same unit and have the
// same name.
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

// Lasting is a path in the directory that contains all files of this name: a directory's name, too,
// may have a time in it.
func (r *rotationOptions) Lasting(path string) string {
	if r.Every == 0 {
		return path
	}
	for dir := filepath.Dir(path); strings.Contains(dir, "%"); dir = filepath.Dir(dir) {
		path = dir
	}
	return path
}

// dumpcapName returns a function that makes dumpcap's names: a number from 1 on and a time before
// the suffix.
func (r *rotationOptions) dumpcapName(path string) func(file.Place) string {
	stem, format, compression := file.SplitName(path)
	return func(p file.Place) string {
		return fmt.Sprintf("%s_%05d_%s%s%s", stem, r.firstNumber+p.Number+p.Passed+1, p.Began.Local().Format("20060102150405"), format, compression)
	}
}
