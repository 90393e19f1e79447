package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// An Opener opens files for a process of root that will drop rights before it writes to them. The
// zero value opens any file, with all rights.
type Opener struct {
	// As calls a function with the rights that remain; nil = all remain, and Open accepts any file
	// whose path has no link of another user.
	As func(do func() error) error

	// Who names the user with the remaining rights in errors.
	Who string

	// User is the id of the user that the process becomes; 0 = it stays root.
	User int

	// Checks rejects files that belong to others, and links of others. It is not needed if the
	// process has no rights that others could exploit.
	Checks bool

	// KeepsUser means that no option requested a change of the user. A file that is opened with all
	// rights may then also belong to the owner of its directory.
	KeepsUser bool
}

// Open calls a function that opens a file with the rights that remain, so that a link can lead only
// to files that this user may open. A process that stays root may open all files, so Open then
// follows only root's own links. If the kernel refuses to open the file, Open tries again with all
// rights, but then follows only root's links, and accepts only a file that is new, root's or that
// user's. The process can later write to this open file, but not to others in the directory.
func (o *Opener) Open(path string, open func(Trust) error) error {
	if o.trusts(path) {
		return open(Trust{})
	}
	if o.As == nil {
		return open(Trust{NoLinks: true})
	}
	err := o.As(func() error { return open(o.Trust(path)) })
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	direct := o.OpenDirect(path, open)
	if direct == nil || errors.Is(direct, errUntrusted) {
		return direct
	}
	return fmt.Errorf("as %s: %w", o.Who, err)
}

// OpenDirect calls a function that opens a file with all rights, and follows only root's links. It
// needs no As.
func (o *Opener) OpenDirect(path string, open func(Trust) error) error {
	if o.trusts(path) {
		return open(Trust{})
	}
	return open(Trust{Owners: o.owners(path, o.KeepsUser && o.User == 0), NoLinks: true})
}

// Trust returns the conditions for a file that is opened at a path with the rights that remain.
func (o *Opener) Trust(path string) Trust {
	if o.trusts(path) {
		return Trust{}
	}
	return Trust{Owners: o.owners(path, true), NoLinks: o.User == 0}
}

// trusts reports whether any file is accepted at a path. An inherited descriptor is always
// accepted.
func (o *Opener) trusts(path string) bool {
	return !o.Checks || path == "-" || isDescriptor(path)
}

// owners are the users who may own an existing file, because the owner can read the packets in it:
// root, the user that the process becomes, and, if ofDirectory, the directory's owner, who can put
// any file there.
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
