package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// An Opener opens files for a process of root that will have fewer rights when it writes to them.
// The zero value opens any file with all rights.
type Opener struct {
	// As calls a function with the rights that the process will have; nil = they are not known, and
	// Open takes any file.
	As func(do func() error) error

	// Who names in errors whose rights these are.
	Who string

	// User is the id of the user whom the process will become; 0 = it stays root.
	User int

	// Checks refuses files that belong to others. Without it the process has no rights that others
	// could make use of, or is to use all that it has.
	Checks bool

	// Stays says that nobody has asked the process to become another user. A file that is opened
	// with all rights may then belong to the owner of its directory, too.
	Stays bool
}

// Open opens a file by a function: with the rights that the process will have, so that a link leads
// it nowhere else than it leads that user. Where the kernel refuses that, it is opened with all
// rights, but by no link, and only if it is new, root's or that user's: then the user may write
// this file, and nothing else in its directory.
func (o *Opener) Open(path string, open func(Trust) error) error {
	if o.trusts(path) || o.As == nil {
		return open(Trust{})
	}
	err := o.As(func() error { return open(o.Trust(path)) })
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	direct := o.OpenDirect(path, open)
	if direct == nil || errors.Is(direct, ErrUntrusted) {
		return direct
	}
	return fmt.Errorf("as %s: %w", o.Who, err)
}

// OpenDirect opens a file by a function with all rights, and by no link. It needs no As.
func (o *Opener) OpenDirect(path string, open func(Trust) error) error {
	if o.trusts(path) {
		return open(Trust{})
	}
	return open(Trust{Owners: o.owners(path, o.Stays && o.User == 0), NoLinks: true})
}

// Trust says which file may be at a path that is opened with the rights that the process will have.
func (o *Opener) Trust(path string) Trust {
	if o.trusts(path) {
		return Trust{}
	}
	return Trust{Owners: o.owners(path, true)}
}

// trusts tells whether any file may be at a path. A descriptor that the process was given is used
// as it is.
func (o *Opener) trusts(path string) bool {
	if !o.Checks || path == "-" {
		return true
	}
	return slices.ContainsFunc([]string{"/dev/fd/", "/dev/std", "/proc/self/fd/"}, func(directory string) bool {
		return strings.HasPrefix(path, directory)
	})
}

// owners are the users to whom a file that is there may belong, as nobody else should read what is
// written to it: root, whom the process becomes, and perhaps who may put any file there.
func (o *Opener) owners(path string, ofDirectory bool) []int {
	owners := []int{0}
	if o.User != 0 {
		owners = append(owners, o.User)
	}
	var dir unix.Stat_t
	if ofDirectory && unix.Stat(filepath.Dir(path), &dir) == nil {
		owners = append(owners, int(dir.Uid))
	}
	return owners
}
