package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A jsonFlag is the value of the capture's --json: the file for its objects.
type jsonFlag struct {
	given bool
	file  string

	opened *outfile.File // nil for a descriptor, and before open
	begun  bool          // begin was called
}

// onStderr is the file of --json without a value.
const onStderr = frame.StderrFile

func (f *jsonFlag) String() string { return f.file }
func (f *jsonFlag) Type() string   { return "file" }
func (f *jsonFlag) Forget()        { *f = jsonFlag{} }

func (f *jsonFlag) Set(file string) error {
	if file == "" {
		return errors.New("must be a file, or be omitted for standard error")
	}
	*f = jsonFlag{given: true, file: file}
	return nil
}

// descriptor returns the number of the process's descriptor that the file names, or -1.
func (f *jsonFlag) descriptor() int {
	switch f.file {
	case "/dev/stdout":
		return unix.Stdout
	case onStderr:
		return unix.Stderr
	}
	digits, ok := strings.CutPrefix(f.file, "/dev/fd/")
	if fd, err := strconv.ParseUint(digits, 10, 31); ok && err == nil {
		return int(fd)
	}
	return -1
}

// path is the path of the file that open opens; "" for a descriptor.
func (f *jsonFlag) path() string {
	if f.descriptor() >= 0 {
		return ""
	}
	return f.file
}

// open opens the file of --json, or returns p.Stderr. A descriptor is used directly: opening it
// again by its name would empty the file behind it, and is impossible for a socket. Any other file
// is opened by the given function of an outfile.Opener, and stays unchanged until begin is called.
func (f *jsonFlag) open(p *frame.Process, by func(path string, open func(outfile.Trust) error) error) (*frame.Console, error) {
	fd := f.descriptor()
	if fd == unix.Stderr {
		return p.Stderr, nil
	}
	if fd < 0 {
		err := by(f.file, func(t outfile.Trust) (err error) {
			return frame.AwaitReader(p.UntilSignal(), func() error {
				f.opened, err = outfile.Open(f.file, outfile.Options{Trust: t})
				return err
			})
		})
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		return frame.NewConsole(f.opened), nil
	}
	// Descriptors that this process has opened itself have FD_CLOEXEC: they are not the caller's.
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 || fd == unix.Stdout && frame.IsStdoutClosed() {
		return nil, fmt.Errorf("--json=%s: xdpcap was started without this descriptor", f.file)
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("--json=%s: the descriptor is open for reading only", f.file)
	}
	unix.CloseOnExec(fd) // so that its reader does not wait for the end of commands of -z
	return frame.NewConsole(os.NewFile(uintptr(fd), f.file)), nil
}

// explainLines prints a hint for users who expect that --json prints packets as JSON. It prints
// nothing if stderr is read by a program, which may expect only objects.
func (f *jsonFlag) explainLines(o *Options) {
	if f.file != onStderr || o.lines {
		return
	}
	stderr := o.Process.Stderr.File()
	if frame.NewTerminal(stderr) != nil || isSameOpen(o.Process.Stdout.File, stderr) {
		frame.Say(o.Process.Stderr, "--json is the closing report; --format json prints the packets")
	}
}

// isSameOpen reports whether two open files are the same. It is false for nil.
func isSameOpen(a, b *os.File) bool {
	if a == nil || b == nil {
		return false
	}
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// begin empties a file before the first object is written to it.
func (f *jsonFlag) begin() error {
	if f.opened == nil || f.begun {
		return nil
	}
	f.begun = true
	if err := f.opened.Begin(); err != nil {
		return fmt.Errorf("--json=%s: %w", f.file, err)
	}
	return nil
}

// Give makes a file that open has made belong to another user and group.
func (f *jsonFlag) Give(uid, gid int) error {
	if f.opened == nil {
		return nil
	}
	return f.opened.Give(uid, gid)
}

// explain returns the error of a faulty filter, or a better one for `--json out.json`, where the
// first word of the filter was meant as the file of --json: a file must come after an equals sign.
func (f *jsonFlag) explain(words []string, faulty error) error {
	if f.file != onStderr || len(words) == 0 || !strings.ContainsAny(words[0], "/.") {
		return faulty
	}
	return fmt.Errorf("%s is no filter: to write the counts to a file say --json=%s", words[0], message.ShellWord(words[0]))
}

// conflict refuses a file of --json that is also a file of the capture, because each would
// overwrite the other. It is called before any of them is opened. It finds a later file of a series
// by its number, but not one whose name will have the time of -G, or that is a link. The lock of
// the file finds those, when they begin.
func (f *jsonFlag) conflict(o *Options) error {
	path := f.path()
	if path == "" {
		return nil
	}
	for _, name := range o.Writes {
		if frame.IsStdout(name) || outputs.IsURL(name) {
			continue
		}
		first := o.Rotate.FirstName(name)
		if isSameFile(name, path) || isSameFile(first, path) || isSameFile(first+outfile.Partial, path) ||
			o.Rotate.IsLater(leadsTo(name), leadsTo(path)) {
			return fmt.Errorf("-w %s and --json=%s would write to the same file: choose another one for the counts", name, path)
		}
	}
	return nil
}

// isSameFile reports whether two paths lead to the same file, even if it does not exist yet. It is
// false for a device, to which both can write.
func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB) && infoA.Mode()&os.ModeDevice == 0
	}
	return os.IsNotExist(errA) && os.IsNotExist(errB) && leadsTo(a) == leadsTo(b)
}

// leadsTo returns the absolute path at which a file would be created, after all symbolic links. The
// last link may lead to a file that does not exist.
func leadsTo(path string) string {
	for range 40 { // Linux follows as many links
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}
