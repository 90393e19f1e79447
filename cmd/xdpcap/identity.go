package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// chooseUser returns whom the capture becomes; nil = nobody else. It writes files in these
// directories, and makes others later in one of them ("" = in none), without capabilities then.
// That is the user of -Z. Without -Z, it is the caller of sudo where that user may write in all of
// them, or else the owner of the directory where root without capabilities may make no files later,
// because somebody who lets root capture into a directory wants to have the files there.
func (o *sandboxOptions) chooseUser(directories []string, later string) (*privilege.User, error) {
	if o.user != "" {
		u, err := privilege.LookUp(o.user)
		switch {
		case err != nil:
			return nil, fmt.Errorf("-Z: %w", err)
		case u.UID == os.Geteuid(): // it is already
			return nil, nil
		case os.Geteuid() != 0:
			return nil, fmt.Errorf("-Z %s: only root can become another user: omit it", o.user)
		}
		return u, nil
	}
	if u := privilege.Caller(); u != nil && mayWrite(u, directories) {
		return u, nil
	}
	if os.Geteuid() == 0 && later != "" && !mayWrite(nil, []string{later}) {
		if u := privilege.Owner(later); u != nil && mayWrite(u, []string{later}) {
			o.owned = later
			return u, nil
		}
	}
	return nil, nil
}

// mayWrite tells whether a user, or this one without capabilities, may make files in all of the
// directories.
func mayWrite(u *privilege.User, directories []string) bool {
	box := &privilege.Sandbox{User: u}
	for _, dir := range directories {
		if !box.MayWrite(dir) {
			return false
		}
	}
	return true
}

// as calls do with the rights that the capture has while it captures.
func (o *sandboxOptions) as(do func() error) error {
	if o.box == nil {
		return do()
	}
	return o.box.As(do)
}

// try finds out whether the capture will be able to do what it does later.
func (o *sandboxOptions) try(do func() error) error {
	err := o.as(do)
	if o.box == nil || os.Geteuid() != 0 || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("as %s: %w: the capture does so for each further file: choose another directory or user (-Z), "+
		"or keep root's rights (--no-sandbox)", o.who(), err)
}

// open opens a file by a function: with the rights that the capture has while it captures, so that
// a link leads it nowhere else than it leads that user. Where the kernel refuses that, the capture
// opens the file with all its rights, but follows no link, and takes only what is new, root's or
// that user's: then the user may write this file, and nothing else in its directory.
func (o *sandboxOptions) open(path string, open func(outfile.Trust) error) error {
	if o.trusts(path) || o.box == nil {
		return open(outfile.Trust{})
	}
	err := o.as(func() error { return open(o.trust(path)) })
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	direct := o.openDirect(path, open)
	if direct == nil || errors.Is(direct, outfile.ErrUntrusted) {
		return direct
	}
	return fmt.Errorf("as %s: %w", o.who(), err)
}

// trust says which file may be at a path that is opened as whom the capture becomes.
func (o *sandboxOptions) trust(path string) outfile.Trust {
	if o.trusts(path) {
		return outfile.Trust{}
	}
	return outfile.Trust{Owners: o.owners(path, true)}
}

// openDirect opens a file with all rights, and by no link. It may be called without a plan.
func (o *sandboxOptions) openDirect(path string, open func(outfile.Trust) error) error {
	if o.trusts(path) {
		return open(outfile.Trust{})
	}
	return open(outfile.Trust{Owners: o.owners(path, o.user == "" && o.becomes() == nil), NoLinks: true})
}

// trusts tells whether any file may be at a path: nobody else can use rights that this process does
// not have, that it is to use, or that come with a descriptor that it was given.
func (o *sandboxOptions) trusts(path string) bool {
	if os.Geteuid() != 0 || o.off || path == "-" {
		return true
	}
	return slices.ContainsFunc([]string{"/dev/fd/", "/dev/std", "/proc/self/fd/"}, func(directory string) bool {
		return strings.HasPrefix(path, directory)
	})
}

// becomes is whom the capture becomes; nil = nobody else, or there is no plan yet.
func (o *sandboxOptions) becomes() *privilege.User {
	if o.box == nil {
		return nil
	}
	return o.box.User
}

// owners are the users to whom a file that is there may belong, as nobody else should read what is
// written to it: root, whom the capture becomes, and perhaps who may put any file there.
func (o *sandboxOptions) owners(path string, ofDirectory bool) []int {
	owners := []int{0}
	if u := o.becomes(); u != nil {
		owners = append(owners, u.UID)
	}
	var dir unix.Stat_t
	if ofDirectory && unix.Stat(filepath.Dir(path), &dir) == nil {
		owners = append(owners, int(dir.Uid))
	}
	return owners
}

// who names whom the capture becomes.
func (o *sandboxOptions) who() string {
	switch u := o.becomes(); {
	case o.box == nil:
		return fmt.Sprintf("user id %d", os.Geteuid())
	case u != nil:
		return "user " + u.Name
	case os.Geteuid() == 0:
		return "root without capabilities"
	}
	return fmt.Sprintf("user id %d without capabilities", os.Geteuid())
}
