package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// A User is a user that a process of root can become.
type User struct {
	Name     string
	UID, GID int
	Groups   []int // the supplementary ones
}

// LookUp finds a user by name.
func LookUp(name string) (*User, error) {
	found, err := user.Lookup(name)
	if err != nil {
		if errors.As(err, new(user.UnknownUserError)) {
			return nil, fmt.Errorf("there is no user %q", name)
		}
		return nil, fmt.Errorf("look up user %q: %w", name, err)
	}
	return newUser(found)
}

// Caller returns the user who started this process as root with sudo, run0, doas or pkexec. It
// returns nil if the process was started in another way, if that user is root, or if this process
// cannot become that user.
func Caller() *User {
	if !mayBecome() {
		return nil
	}
	// run0 sets sudo's variables, too. If several are set, as when root calls sudo in a shell of
	// doas, the variable that does not name root takes precedence.
	gid, _ := id(os.Getenv("SUDO_GID"))
	for _, uid := range []string{"SUDO_UID", "PKEXEC_UID"} {
		if uid, ok := id(os.Getenv(uid)); ok && uid != 0 {
			return byID(uid, gid)
		}
		gid = 0
	}
	if u, err := LookUp(os.Getenv("DOAS_USER")); err == nil && u.UID != 0 {
		return u
	}
	return nil
}

// Owner returns the user that owns a directory; nil = the owner is root, or this process cannot
// become that user.
func Owner(directory string) *User {
	var dir unix.Stat_t
	if !mayBecome() || unix.Stat(directory, &dir) != nil || dir.Uid == 0 {
		return nil
	}
	return byID(int(dir.Uid), int(dir.Gid))
}

// unprivileged is the user that the packages make for captures.
const unprivileged = "xdpcap"

// Unprivileged returns the user that a process of root becomes as soon as no task needs root's id
// any more: xdpcap if there is such a user, otherwise the user nobody. Its only group is its own.
// nil = this process cannot become that user, as in a user namespace that does not have it.
func Unprivileged() *User {
	if !mayBecome() {
		return nil
	}
	u, err := LookUp(unprivileged)
	if err != nil || u.UID == 0 {
		u = byID(nobodyID, nogroup)
	}
	u.Groups = []int{u.GID}
	if (&Sandbox{User: u}).As(func() error { return nil }) != nil {
		return nil
	}
	return u
}

// mayBecome reports whether this process is root's and can become another user.
func mayBecome() bool {
	return os.Geteuid() == 0 && os.Getuid() == 0 && holds(cap.SETUID) && holds(cap.SETGID)
}

// id parses the number of a user or group.
func id(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// nobodyID and nogroup are the kernel's default numbers for an unknown user and group.
const nobodyID, nogroup = 65534, 65534

// byID finds a user by number. If this process cannot read the list of users, for example because
// the list is outside of its container, the user gets its own number as its group; if that is
// root's, nogroup.
func byID(uid, gid int) *User {
	if found, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		if u, err := newUser(found); err == nil {
			return u
		}
	}
	if gid == 0 {
		gid = nogroup
	}
	return &User{Name: "with id " + strconv.Itoa(uid), UID: uid, GID: gid, Groups: []int{gid}}
}

func newUser(found *user.User) (u *User, err error) {
	u = &User{Name: found.Username}
	if u.UID, err = strconv.Atoi(found.Uid); err != nil {
		return nil, err
	}
	if u.GID, err = strconv.Atoi(found.Gid); err != nil {
		return nil, err
	}
	groups, err := found.GroupIds()
	if errors.Is(err, fs.ErrNotExist) { // there is no /etc/group
		groups, err = []string{found.Gid}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up the groups of user %s: %w", u.Name, err)
	}
	for _, g := range groups {
		if gid, err := strconv.Atoi(g); err == nil {
			u.Groups = append(u.Groups, gid)
		}
	}
	return u, nil
}
