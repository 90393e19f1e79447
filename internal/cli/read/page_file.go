package read

import (
	"bytes"
	"fmt"
	"os"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A pageFile is the file that --report names. It is open before the sandbox, and stays unchanged
// until the page is whole.
type pageFile struct {
	path   string // "" = none
	opened *outfile.File
}

// open opens the file. Files that are read are refused.
func (f *pageFile) open(p *frame.Process, opener *outfile.Opener, isInput func(os.FileInfo) bool) (err error) {
	switch {
	case f.path == "":
		return nil
	case frame.IsStdout(f.path):
		f.opened, err = outfile.Opened(p.Stdout.File, frame.StdoutName)
	default:
		err = opener.Open(f.path, func(t outfile.Trust) error {
			return frame.AwaitReader(p.Signalled(), func() error {
				f.opened, err = outfile.Open(f.path, outfile.Options{Trust: t})
				return err
			})
		})
	}
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if info, err := f.opened.Stat(); err == nil && isInput(info) {
		return fmt.Errorf("--report %s: this file is being read: choose another one", f.path)
	}
	return nil
}

// Give makes a new file belong to another user and group.
func (f *pageFile) Give(uid, gid int) error {
	if f.opened == nil {
		return nil
	}
	return f.opened.Give(uid, gid)
}

// write replaces the content of the file.
func (f *pageFile) write(page *bytes.Buffer) error {
	if err := f.opened.Begin(); err != nil {
		return fmt.Errorf("--report %s: %w", f.path, err)
	}
	size := int64(page.Len())
	if _, err := page.WriteTo(f.opened); err != nil {
		return fmt.Errorf("--report %s: %w", f.path, err)
	}
	if err := f.opened.Finish(size); err != nil {
		return fmt.Errorf("--report %s: %w", f.path, err)
	}
	return nil
}

// close closes the file.
func (f *pageFile) close() {
	if f.opened != nil {
		f.opened.Close()
	}
}
