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

// chooseUser returns the user that the capture becomes; nil = it stays as it is. The capture writes
// files in these directories, and later creates others in one of them ("" = in none), then without
// capabilities. The user is that of -Z. Without -Z it is the caller of sudo, if that user may write
// in all of the directories. Otherwise, if root without capabilities cannot create files in later,
// it is the owner of later: whoever lets root capture into a directory wants the files there.
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

// mayWrite says whether a user, or the current user without capabilities, may create files in all
// of the directories.
func mayWrite(u *privilege.User, directories []string) bool {
	box := &privilege.Sandbox{User: u}
	for _, dir := range directories {
		if !box.MayWrite(dir) {
			return false
		}
	}
	return true
}

// As calls do with the rights that the capture will have while it captures.
func (o *Sandbox) As(do func() error) error {
	if o.box == nil {
		return do()
	}
	return o.box.As(do)
}

// Try finds out whether the capture will be able to do what it does later.
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

// Opener opens files that are written later, with the rights of the user that the capture becomes.
func (o *Sandbox) Opener() *outfile.Opener {
	opener := &outfile.Opener{Who: o.who(), Checks: os.Geteuid() == 0, KeepsUser: o.user == ""}
	if o.box != nil {
		opener.As = o.box.As
	}
	if u := o.becomes(); u != nil {
		opener.User = u.UID
	}
	return opener
}

// Owners are the ids of the users whose capture it is: root, who runs it, the caller of sudo, and
// the user that it becomes.
func (o *Sandbox) Owners() []int {
	owners := []int{0, os.Getuid()}
	for _, u := range []*privilege.User{privilege.Caller(), o.becomes()} {
		if u != nil {
			owners = append(owners, u.UID)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// becomes is the user that the capture becomes; nil = it stays as it is, or there is no plan yet.
func (o *Sandbox) becomes() *privilege.User {
	if o.box == nil {
		return nil
	}
	return o.box.User
}

// who names the user that the capture becomes.
func (o *Sandbox) who() string {
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
