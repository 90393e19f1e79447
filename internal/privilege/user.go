package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// A User is whom a process of root can become.
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

// Sudoer is the user who called this process by sudo; nil = nobody did, or it was root, or this
// process cannot become that user.
func Sudoer() *User {
	uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 31)
	if err != nil || uid == 0 || os.Getuid() != 0 || !holds(cap.SETUID) || !holds(cap.SETGID) {
		return nil
	}
	if found, err := user.LookupId(os.Getenv("SUDO_UID")); err == nil {
		if u, err := newUser(found); err == nil {
			return u
		}
	}
	// Users may be kept where this process cannot look.
	gid, err := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 31)
	if err != nil {
		return nil
	}
	return &User{Name: "with id " + strconv.Itoa(int(uid)), UID: int(uid), GID: int(gid), Groups: []int{int(gid)}}
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

// MayWrite tells whether the user may make files in a directory. This process must be root's.
func (u *User) MayWrite(directory string) bool {
	// The kernel is asked by a thread that has the user's identity in file systems for a moment.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.Getgroups()
	if err != nil || setThreadGroups(u.Groups) != nil {
		return false
	}
	defer setThreadGroups(own)
	unix.Setfsgid(u.GID)
	defer unix.Setfsgid(unix.Getegid())
	unix.Setfsuid(u.UID)
	defer unix.Setfsuid(unix.Geteuid())
	return unix.Faccessat(unix.AT_FDCWD, directory, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

// setThreadGroups sets the supplementary groups of this thread alone.
func setThreadGroups(groups []int) error {
	ids := make([]uint32, len(groups)+1) // never empty, so that it has an address
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	if _, _, err := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0); err != 0 {
		return err
	}
	return nil
}
