package privilege

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// As calls do with the file system rights that this process will have in the sandbox: with the
// sandbox's user and groups, and without capabilities. So do can open, make or remove exactly the
// files that the process can later, and the kernel follows a symbolic link with these rights only.
// Files that do makes belong to that user. The rest of the process keeps its identity. Landlock's
// rules do not apply yet.
//
// do runs on a thread of its own, and must start no goroutine that opens files. As returns do's
// error, or an error if the kernel refuses to give the thread that identity.
func (s *Sandbox) As(do func() error) error { return onThread(s.assume, do) }

// onThread calls change and then do on a thread of its own. restore undoes the change; it is called
// even after an error of change.
func onThread(change func() (restore func() error, err error), do func() error) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine if it cannot be restored
		restore, err := change()
		if err == nil {
			err = do()
		}
		if undone := restore(); undone != nil {
			err = fmt.Errorf("put a thread's identity back: %w", undone)
		} else {
			runtime.UnlockOSThread()
		}
		failed <- err
	}()
	return <-failed
}

// capabilities are the capability sets of a thread.
type capabilities [2]unix.CapUserData

// ownCapabilities returns the capabilities of this thread.
func ownCapabilities() (*capabilities, error) {
	own, header := new(capabilities), capabilityHeader()
	if err := unix.Capget(&header, &own[0]); err != nil {
		return nil, fmt.Errorf("ask for the capabilities: %w", err)
	}
	return own, nil
}

// set gives the capabilities to this thread.
func (c *capabilities) set() error {
	header := capabilityHeader()
	return unix.Capset(&header, &c[0])
}

func capabilityHeader() unix.CapUserHeader {
	return unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
}

// assume gives this thread the identity of the sandbox. restore restores the old one; call it even
// after an error.
func (s *Sandbox) assume() (restore func() error, err error) {
	own, err := ownCapabilities()
	if err != nil {
		return func() error { return nil }, err
	}
	restore = own.set
	if s.User != nil {
		if restore, err = s.User.assume(own); err != nil {
			return restore, err
		}
	}
	none := *own // the permitted ones stay, so that the effective ones can be restored
	none[0].Effective, none[1].Effective = 0, 0
	if err := none.set(); err != nil {
		return restore, fmt.Errorf("do without capabilities: %w", err)
	}
	return restore, nil
}

// assume gives this thread the groups and the file system rights of the user. restore restores the
// old ones, and the thread's own capabilities; call it even after an error.
func (u *User) assume(own *capabilities) (restore func() error, err error) {
	groups, err := unix.Getgroups()
	if err == nil {
		err = unix.Setgroups(u.Groups)
	}
	if err != nil {
		return own.set, fmt.Errorf("have the groups of user %s: %w", u.Name, err)
	}
	restore = func() error {
		return errors.Join( // in this order: a new user has other capabilities, and setting groups needs one
			setFilesystemID(unix.SetfsuidRetUid, unix.Geteuid()),
			setFilesystemID(unix.SetfsgidRetGid, unix.Getegid()),
			own.set(),
			unix.Setgroups(groups),
		)
	}
	if err := setFilesystemID(unix.SetfsgidRetGid, u.GID); err != nil {
		return restore, fmt.Errorf("have the group of user %s: %w", u.Name, err)
	}
	if err := setFilesystemID(unix.SetfsuidRetUid, u.UID); err != nil {
		return restore, fmt.Errorf("act as user %s: %w", u.Name, err)
	}
	return restore, nil
}

// setFilesystemID sets the user or group that the kernel uses to check this thread's file access.
// The call itself returns no errors, so a second call with an invalid id reads the id back.
func setFilesystemID(set func(id int) (previous int, err error), id int) error {
	if _, err := set(id); err != nil {
		return err
	}
	if now, err := set(-1); err != nil || now != id {
		return unix.EPERM
	}
	return nil
}

// MayWrite reports whether the process may make files in a directory once it is in the sandbox. It
// only checks permissions and makes no file, because the disk may still be full.
func (s *Sandbox) MayWrite(directory string) bool {
	return s.As(func() error {
		return unix.Faccessat(unix.AT_FDCWD, directory, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}) == nil
}
