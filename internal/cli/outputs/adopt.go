package outputs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/capture/file"
)

// A leftFile is a file that an earlier run of a ring of files has left.
type leftFile struct {
	path   string
	number int
	ended  time.Time
}

// leftFiles finds the regular files in dir, which is as filepath.Split returns it, whose names
// match a pattern. The pattern's first group is a number, or empty. The oldest file comes first.
// The error is for users: without its earlier files a ring grows by one at each start.
func leftFiles(dir, pattern string) (left []leftFile, err error) {
	name := regexp.MustCompile("^" + pattern + "$")
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // what opens the file says so
	}
	if err != nil {
		err = fmt.Errorf("files that an earlier run has left are not known, and stay: %w: make the directory readable", err)
	}
	for _, e := range entries {
		match := name.FindStringSubmatch(e.Name())
		if match == nil || !e.Type().IsRegular() {
			continue
		}
		number, err := strconv.Atoi(cmp.Or(match[1], "0"))
		if err != nil || number > math.MaxInt/2 {
			continue // no run has counted so far, and the numbers after it must not overflow
		}
		if info, err := e.Info(); err == nil {
			left = append(left, leftFile{dir + e.Name(), number, info.ModTime()})
		}
	}
	slices.SortFunc(left, func(a, b leftFile) int { return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.number, b.number)) })
	return left, err
}

func pathsOf(files []leftFile) (paths []string) {
	for _, f := range files {
		paths = append(paths, f.path)
	}
	return paths
}

// Adopt finds the files that an earlier run of the ring of files has left. They count as files of
// this run, and the numbers go on after theirs. With tcpdump's names, whose numbers repeat, that is
// after the newest file. With dumpcap's it is after the highest number, because two runs may begin
// in the same second. After an error, which is no reason to end, it may not know all.
func (o *Options) Adopt() error {
	if o.Series == nil || o.Series.Keep == 0 {
		return nil
	}
	dir, base := filepath.Split(o.Write)
	if len(o.Rotate.begins) > 0 {
		left, err := leftFiles(dir, o.Rotate.unfinished(dumpcapPattern(base)))
		for _, f := range left {
			o.Rotate.firstNumber = max(o.Rotate.firstNumber, f.number)
		}
		o.Series.Left = pathsOf(left)
		return err
	}
	files := int(o.Rotate.files)
	pattern := tcpdumpPattern(base, `\d{`+strconv.Itoa(o.Rotate.digits())+`}`)
	left, err := leftFiles(dir, o.Rotate.unfinished(pattern))
	left = slices.DeleteFunc(left, func(f leftFile) bool { return f.number >= files })
	if len(left) == 0 {
		return err
	}
	next := (left[len(left)-1].number + 1) % files
	slices.SortStableFunc(left, func(a, b leftFile) int {
		return cmp.Compare((a.number-next+files)%files, (b.number-next+files)%files)
	})
	o.Rotate.firstNumber, o.Series.Left = next, pathsOf(left)
	return err
}

// dumpcapPattern matches dumpcap's names of the files for a -w of this name.
func dumpcapPattern(name string) string {
	stem, format, compression := file.SplitName(name)
	return regexp.QuoteMeta(stem) + `_(\d{5,})_\d{14}` + regexp.QuoteMeta(format+compression)
}

// tcpdumpPattern matches tcpdump's names, with a number of these digits.
func tcpdumpPattern(name, digits string) string {
	stem, format, compression := file.SplitName(name)
	return regexp.QuoteMeta(stem+format) + "(" + digits + ")" + regexp.QuoteMeta(compression)
}

// unfinished also lets a pattern match the files that a killed run with --atomic has left.
func (r *rotationOptions) unfinished(pattern string) string {
	if r.atomic {
		return pattern + `(?:\.partial)?`
	}
	return pattern
}

// IsLater says whether a later file of a numbered series may have this path. write is the path of
// its first file.
func (r *rotationOptions) IsLater(write, path string) bool {
	dir, base := filepath.Split(write)
	pattern := ""
	switch {
	case len(r.begins) > 0:
		pattern = dumpcapPattern(base)
	case r.size.Bytes > 0:
		pattern = tcpdumpPattern(base, `\d+`)
	default:
		return false
	}
	in, name := filepath.Split(path)
	return in == dir && regexp.MustCompile("^"+r.unfinished(pattern)+"$").MatchString(name)
}
