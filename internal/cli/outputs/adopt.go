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

// A leftFile is a file of an earlier run of a ring of files.
type leftFile struct {
	path   string
	number int
	ended  time.Time
}

// leftFiles finds the regular files in a directory, given as by filepath.Split, whose names match a
// pattern. The pattern's first group is a number, or empty. The oldest file comes first. The error
// is for users: if earlier files are unknown, the ring keeps more files with each start.
func leftFiles(dir, pattern string) (left []leftFile, err error) {
	name := regexp.MustCompile("^" + pattern + "$")
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // opening the file reports that
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
			continue // a number that no run reaches, and that would make later numbers overflow
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

// Adopt finds the files of earlier runs of the ring of files. They count as files of this run,
// which continues their numbers: tcpdump's numbers, which repeat, after the newest file, and
// dumpcap's after the highest number, because two runs may begin in the same second. An error means
// that some files may be missing, and need not end the run.
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

// tcpdumpPattern matches tcpdump's names, with a number that matches digits.
func tcpdumpPattern(name, digits string) string {
	stem, format, compression := file.SplitName(name)
	return regexp.QuoteMeta(stem+format) + "(" + digits + ")" + regexp.QuoteMeta(compression)
}

// unfinished extends a pattern to the unfinished files of a killed run with --atomic.
func (r *rotationOptions) unfinished(pattern string) string {
	if r.atomic {
		return pattern + `(?:\.partial)?`
	}
	return pattern
}

// IsLater reports whether a later file of a numbered series may have this path. write is the path
// of its first file.
func (r *rotationOptions) IsLater(write, path string) bool {
	dir, base := filepath.Split(write)
	otherDir, name := filepath.Split(path)
	pattern := dumpcapPattern(base)
	if len(r.begins) == 0 {
		pattern = tcpdumpPattern(base, `\d+`)
	}
	isNumbered := len(r.begins) > 0 || r.size.Bytes > 0
	return isNumbered && otherDir == dir && regexp.MustCompile("^"+r.unfinished(pattern)+"$").MatchString(name)
}
