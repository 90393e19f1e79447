package capture

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// Files are numbered before the suffix.
func TestFileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, want := range map[string]string{"a": "a-1", "a.pcapng": "a-1.pcapng", "a.b.pcap": "a-1.b.pcap", ".hidden": ".hidden-1"} {
		if got := outputs.FileNames(filepath.Join(dir, name), 0)(); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// --ring takes memory, a time, or both.
func TestRing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]recorderOptions{
		"1M": {size: frame.Size{Bytes: 1 << 20, Unit: 1}}, "10s": {size: frame.Size{Bytes: 256 << 20, Unit: 1}, ahead: 10 * time.Second},
		"500ms,2G": {size: frame.Size{Bytes: 2 << 30, Unit: 1}, ahead: 500 * time.Millisecond}, "1m30s,1048576": {size: frame.Size{Bytes: 1 << 20, Unit: 1}, ahead: 90 * time.Second},
		"": {}, "s": {}, "10s,": {}, "1M,10s": {}, "1M,": {}, "10x": {}, "10s,5s": {}, "-1s": {},
	} {
		var got recorderOptions
		err := (*ringFlag)(&got).Set(text)
		if (err == nil) != (want.size.Bytes > 0) || got.size != want.size || got.ahead != want.ahead {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// A recording is always a new file: what somebody else puts at its name, after that was found free,
// stays as it is, and the recording gets the next name.
func TestRecordingIsNew(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"nothing":                  nil,
		"a FIFO":                   func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a FIFO that nobody reads": func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a file":                   func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"a link": func(path string) error {
			return errors.Join(os.WriteFile(path+".other", nil, 0o666), os.Symlink(path+".other", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			r := &captureRun{o: new(Options)}
			r.o.Write, r.o.Targets, r.o.Process = path, []outputs.Target{{Name: path}}, new(frame.Process)
			r.Flags = &r.o.Options
			free, want := outputs.FileNames(path, 0), path+"-1"
			if put != nil {
				want = path + "-2"
			}
			var reader *os.File
			names := func() string {
				next := free()
				if next == want {
					return next
				}
				if err := put(next); err != nil {
					t.Fatal(err)
				}
				if name == "a FIFO" {
					var err error
					if reader, err = os.OpenFile(next, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
						t.Fatal(err)
					}
				}
				return next
			}
			opened, got, err := r.openRecording(names, file.Rotation{})
			if err != nil {
				t.Fatal(err)
			}
			if err := opened.Begin(capture.Description{}); err != nil {
				t.Fatal(err)
			}
			if _, err := opened.End(nil); err != nil {
				t.Error(err)
			}
			if info, err := os.Lstat(want); got != want || err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
				t.Errorf("the recording is %s, %v, %v", got, info, err)
			}
			if reader != nil {
				if read, err := io.ReadAll(reader); len(read) > 0 || err != nil {
					t.Errorf("the FIFO's reader got %q, %v", read, err)
				}
				reader.Close()
			}
		})
	}
}
