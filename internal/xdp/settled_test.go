package xdp

import (
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// What the kernel says EAGAIN of is looked at again, and is not there where that does not change.
func TestOpenSettled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		answers []error // the last one is repeated
		want    error
		slow    time.Duration // what the first try takes
	}{
		{"at once", []error{nil}, nil, 0},
		{"later", []error{unix.EAGAIN, unix.EAGAIN, nil}, nil, 0},
		{"later, on a busy machine", []error{unix.EAGAIN, nil}, nil, 2 * settleLimit},
		{"never", []error{unix.EAGAIN}, fs.ErrNotExist, 0},
		{"gone meanwhile", []error{unix.EAGAIN, unix.ENOENT}, fs.ErrNotExist, 0},
		{"forbidden", []error{unix.EPERM}, unix.EPERM, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			left, slow := test.answers, test.slow
			opened, err := openSettled(func() (int, error) {
				time.Sleep(slow)
				slow = 0
				answer := left[0]
				if len(left) > 1 {
					left = left[1:]
				}
				return 7, answer
			})
			if !errors.Is(err, test.want) || err == nil && opened != 7 {
				t.Errorf("%s: %d, %v, want %v", test.name, opened, err, test.want)
			}
		})
	}
}
