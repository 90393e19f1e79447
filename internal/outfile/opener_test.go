package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// errAsUser is the error of opening with fewer rights.
var errAsUser = &fs.PathError{Op: "open", Path: "it", Err: syscall.EACCES}

// An Opener opens each file with the rights that are to count, and trusts no more than they need.
func TestOpener(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	dir := t.TempDir()
	must(t, os.Chown(dir, 1235, 1235))
	const (
		may = iota // the kernel lets the user open the file
		mayNot
		unknown // the user's rights are unknown
	)
	path := filepath.Join(dir, "file")
	for name, test := range map[string]struct {
		opener Opener
		path   string
		user   int
		want   []Trust // those by which it is opened, one after the other
	}{
		"no checks":                     {Opener{}, path, may, []Trust{{}}},
		"all rights":                    {Opener{Checks: true}, path, unknown, []Trust{{NoLinks: true}}},
		"standard output":               {Opener{Checks: true}, "-", may, []Trust{{}}},
		"a descriptor":                  {Opener{Checks: true}, "/dev/fd/5", may, []Trust{{}}},
		"a descriptor of the process":   {Opener{Checks: true}, "/proc/self/fd/5", mayNot, []Trust{{}}},
		"a standard stream":             {Opener{Checks: true}, "/dev/stdout", may, []Trust{{}}},
		"a file of root":                {Opener{Checks: true, KeepsUser: true}, path, may, []Trust{{Owners: []int{0, 1235}, NoLinks: true}}},
		"a file of the user":            {Opener{Checks: true, User: 1234}, path, may, []Trust{{Owners: []int{0, 1234, 1235}}}},
		"what the user may not":         {Opener{Checks: true, User: 1234}, path, mayNot, []Trust{{Owners: []int{0, 1234, 1235}}, {Owners: []int{0, 1234}, NoLinks: true}}},
		"what the caller may not":       {Opener{Checks: true, User: 1234, KeepsUser: true}, path, mayNot, []Trust{{Owners: []int{0, 1234, 1235}}, {Owners: []int{0, 1234}, NoLinks: true}}},
		"what root may not":             {Opener{Checks: true, KeepsUser: true}, path, mayNot, []Trust{{Owners: []int{0, 1235}, NoLinks: true}, {Owners: []int{0, 1235}, NoLinks: true}}},
		"what root may not, by request": {Opener{Checks: true}, path, mayNot, []Trust{{Owners: []int{0, 1235}, NoLinks: true}, {Owners: []int{0}, NoLinks: true}}},
	} {
		asUser := false
		if test.user != unknown {
			test.opener.As = func(do func() error) error {
				asUser = true
				defer func() { asUser = false }()
				return do()
			}
		}
		var got []Trust
		err := test.opener.Open(test.path, func(trust Trust) error {
			got = append(got, trust)
			if test.user == mayNot && asUser {
				return errAsUser
			}
			return nil
		})
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// The error of an Opener is about the rights that count, unless all rights would do and the file is
// not to be trusted.
func TestOpenerErrors(t *testing.T) {
	t.Parallel()
	elsewhere := errors.New("something else")
	for name, test := range map[string]struct {
		asUser, direct error
		want           string
	}{
		"no permission at all": {errAsUser, errAsUser, "as somebody: open it: permission denied"},
		"a link":               {errAsUser, syscall.ELOOP, "as somebody: open it: permission denied"},
		"not trusted":          {errAsUser, errUntrusted, errUntrusted.Error()},
		"not the permission":   {elsewhere, nil, elsewhere.Error()},
	} {
		isDirect := false
		opener := Opener{Checks: true, Who: "somebody", As: func(do func() error) error { return do() }}
		err := opener.Open(filepath.Join(t.TempDir(), "file"), func(Trust) error {
			if isDirect {
				return test.direct
			}
			isDirect = true
			return test.asUser
		})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}
