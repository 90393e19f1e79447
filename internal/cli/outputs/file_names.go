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

// NamesTimes says whether the names of files have the time at which they begin.
func (r *rotationOptions) NamesTimes() bool { return len(r.begins) > 0 || r.Every > 0 }

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
		r.Every, path, message.ShellWord(stem+"_%F_%T"+format+compression), r.Every.Seconds())
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
