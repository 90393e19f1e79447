package xdp

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// What the kernel says EAGAIN of is looked at again, and is not there where that does not change.
func TestOpenSettled(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []error // the last one is repeated
		want    error
	}{
		{"at once", []error{nil}, nil},
		{"later", []error{unix.EAGAIN, unix.EAGAIN, nil}, nil},
		{"never", []error{unix.EAGAIN}, fs.ErrNotExist},
		{"gone meanwhile", []error{unix.EAGAIN, unix.ENOENT}, fs.ErrNotExist},
		{"forbidden", []error{unix.EPERM}, unix.EPERM},
	} {
		t.Run(test.name, func(t *testing.T) {
			left := test.answers
			opened, err := openSettled(func() (int, error) {
				answer := left[0]
				if len(left) > 1 {
					left = left[1:]
				}
				return 7, answer
			})
			if !errors.Is(err, test.want) || err == nil && opened != 7 {
				t.Errorf("%d, %v, want %v", opened, err, test.want)
			}
		})
	}
}
