package frame

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// chooseUser returns the user that the capture becomes; nil = it keeps its user. directories have
// the files that the capture writes; in later, which is one of them or "", it creates more files
// after it has dropped its capabilities. In the order of precedence, the user is
//
//   - that of -Z,
//   - the caller of sudo, if that user may write in all directories,
//   - the owner of later, if root without capabilities cannot create files there.
func (o *Sandbox) chooseUser(directories []string, later string) (*privilege.User, error) {
	if o.user != "" {
		u, err := privilege.LookUp(o.user)
		switch {
		case err != nil:
			return nil, fmt.Errorf("-Z: %w", err)
		case u.UID == os.Geteuid(): // this process is already that user
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

// mayWrite reports whether a user may create files in all of the directories; nil = the current
// user without capabilities.
func mayWrite(u *privilege.User, directories []string) bool {
	box := &privilege.Sandbox{User: u}
	for _, dir := range directories {
		if !box.MayWrite(dir) {
			return false
		}
	}
	return true
}

// As calls do with the rights that the capture will have in the sandbox.
func (o *Sandbox) As(do func() error) error {
	if o.box == nil {
		return do()
	}
	return o.box.As(do)
}

// Try is As for an attempt at something that the capture does again in the sandbox: its error also
// names the flags that give the capture the right to do it.
func (o *Sandbox) Try(do func() error) error {
	err := o.As(do)
	if o.box == nil || os.Geteuid() != 0 || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	instead := "--no-sandbox"
	if o.user != "" {
		instead += " without -Z"
	}
	return fmt.Errorf("as %s: %w: the capture must do this for each further file: choose another directory or user (-Z), "+
		"or keep root's rights (%s)", o.who(), err, instead)
}

// Opener returns the Opener of output files: it has the rights of the user that the process
// becomes.
func (o *Sandbox) Opener() *outfile.Opener {
	opener := &outfile.Opener{Who: o.who(), Checks: os.Geteuid() == 0, KeepsUser: o.user == ""}
	if o.box != nil {
		opener.As = o.box.As
	}
	if u := o.nextUser(); u != nil {
		opener.User = u.UID
	}
	return opener
}

// Owners returns the ids of the users that own the capture: root, the user that runs it, the caller
// of sudo, and the user that the capture becomes. They are sorted, and none is there twice.
func (o *Sandbox) Owners() []int {
	owners := []int{0, os.Getuid()}
	for _, u := range []*privilege.User{privilege.Caller(), o.nextUser()} {
		if u != nil {
			owners = append(owners, u.UID)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// nextUser is the user that the capture becomes; nil = it keeps its user, or Plan was not called.
func (o *Sandbox) nextUser() *privilege.User {
	if o.box == nil {
		return nil
	}
	return o.box.User
}

// who names the user that the capture becomes, for messages.
func (o *Sandbox) who() string {
	switch u := o.nextUser(); {
	case o.box == nil:
		return fmt.Sprintf("user id %d", os.Geteuid())
	case u != nil:
		return "user " + u.Name
	case os.Geteuid() == 0:
		return "root without capabilities"
	}
	return fmt.Sprintf("user id %d without capabilities", os.Geteuid())
}
