package read

import (
	"bytes"
	"fmt"
	"os"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/outfile"
)

// A pageFile is the file of --report. It is opened before the sandbox, and its content stays
// unchanged until the page is whole.
type pageFile struct {
	path   string // "" = none
	opened *outfile.File
}

// open opens the file. It refuses a file that is an input.
func (f *pageFile) open(p *frame.Process, opener *outfile.Opener, isInput func(os.FileInfo) bool) (err error) {
	switch {
	case f.path == "":
		return nil
	case frame.IsStdout(f.path):
		f.opened, err = outfile.Opened(p.Stdout.File, frame.StdoutName)
	default:
		err = opener.Open(f.path, func(t outfile.Trust) error {
			return frame.AwaitReader(p.UntilSignal(), func() error {
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

// Give implements frame.Giver.
func (f *pageFile) Give(uid, gid int) error {
	if f.opened == nil {
		return nil
	}
	return f.opened.Give(uid, gid)
}

// write replaces the content of the file.
func (f *pageFile) write(page *bytes.Buffer) error {
	size := int64(page.Len())
	err := f.opened.Begin()
	if err == nil {
		_, err = page.WriteTo(f.opened)
	}
	if err == nil {
		err = f.opened.Finish(size)
	}
	if err != nil {
		return fmt.Errorf("--report %s: %w", f.path, err)
	}
	return nil
}

func (f *pageFile) close() {
	if f.opened != nil {
		f.opened.Close()
	}
}
