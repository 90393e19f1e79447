// Package privilege drops, for good, the privileges that this process no longer needs:
// capabilities, its user, and the right to open files, connect, and start programs.
package privilege

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// A Sandbox lists the rights that a process keeps.
type Sandbox struct {
	// User is the user that the process becomes; nil = it keeps its user.
	User *User

	// Writable are files, and directories with all files below them, that the process may still
	// open for reading and writing. In the directories it may also make, rename and remove files;
	// with Programs it may make files of any type there. Files that are already open are not
	// affected.
	Writable []string

	// Removable are directories in which, and below which, the process may remove files, but not
	// make or open them.
	Removable []string

	// Readable are directories, with all files below them, that the process may also read. A
	// directory that does not exist is skipped.
	Readable []string

	// Connect are the TCP ports to which the process may connect. It can make no other connection
	// and bind no port; open sockets are not affected and keep listening.
	Connect []uint16

	// Programs means that the process starts other programs. Their needs cannot be predicted, so
	// the sandbox does not restrict reading, executing, connecting and signalling; it still
	// restricts writing.
	Programs bool

	// Work are the remaining tasks of the process. System calls that they do not need fail with
	// EPERM, unless the process starts programs, which would inherit the filter.
	Work []Work

	// Strict makes such a call end the process instead. Tests use it to find missing calls.
	Strict bool

	// Keep are capabilities, by number (capabilities(7)), that the process keeps if it has them,
	// even when it becomes another user. Programs that it executes do not inherit them.
	Keep []int

	// Unfiltered is the reason why system calls are not filtered; nil = they are. Enter sets it.
	Unfiltered error
}

// errPrograms is the reason why a process that starts other programs has no filter.
var errPrograms = errors.New("the programs that it starts would have the same filter")

// Enter restricts all threads of the process, and the programs that it starts from now on, to the
// sandbox. Rights that this kernel's Landlock does not support stay unrestricted: see
// [LandlockABI]. After an error some restrictions may already apply. Enter is called once, and not
// concurrently.
func (s *Sandbox) Enter() error {
	// Executing a program with more privileges, such as a set-user-ID program of root, then gives
	// this process no more. Landlock requires this of an unprivileged process.
	if _, err := cap.Prctlw(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := s.confine(); err != nil {
		return fmt.Errorf("restrict which files may be opened: %w", err)
	}
	if err := dropBounding(); err != nil {
		return fmt.Errorf("drop capabilities from the bounding set: %w", err)
	}
	if s.User != nil {
		if err := s.User.become(len(s.Keep) > 0); err != nil {
			return fmt.Errorf("become user %s: %w", s.User.Name, err)
		}
	}
	if err := dropCapabilities(s.Keep); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if s.Programs {
		s.Unfiltered = errPrograms
		return nil
	}
	err := filter(s.Work, s.Strict)
	if errors.Is(err, errNoSeccomp) {
		s.Unfiltered, err = err, nil
	}
	if err != nil {
		return fmt.Errorf("restrict system calls: %w", err)
	}
	return nil
}

// dropBounding empties the set that limits the capabilities of executed programs, if this process
// has the right to.
func dropBounding() error {
	if !holds(cap.SETPCAP) {
		return nil
	}
	var all []cap.Value
	for c := cap.Value(0); c < cap.MaxBits(); c++ {
		all = append(all, c)
	}
	return cap.DropBound(all...)
}

// holds reports whether this process has a capability.
func holds(c cap.Value) bool {
	has, err := cap.GetProc().GetFlag(cap.Effective, c)
	return err == nil && has
}

// dropCapabilities drops all capabilities except those to keep, which stay permitted and effective.
// No capability stays inheritable or ambient.
func dropCapabilities(keep []int) error {
	own, left := cap.GetProc(), cap.NewSet()
	for _, number := range keep {
		c := cap.Value(number)
		has, err := own.GetFlag(cap.Permitted, c)
		if err != nil {
			return err
		}
		if !has {
			continue
		}
		for _, flag := range []cap.Flag{cap.Permitted, cap.Effective} {
			if err := left.SetFlag(flag, true, c); err != nil {
				return err
			}
		}
	}
	return left.SetProc() // dropping inheritable ones drops the ambient ones
}

// become changes all threads to the user. The kernel then drops all capabilities, or with keep only
// the effective ones, so that they can be restored from the permitted ones.
func (u *User) become(keep bool) error {
	if keep {
		if _, err := cap.Prctlw(unix.PR_SET_KEEPCAPS, 1); err != nil {
			return fmt.Errorf("keep capabilities: %w", err)
		}
		defer cap.Prctlw(unix.PR_SET_KEEPCAPS, 0) // so that no other change of the user keeps them
	}
	if err := syscall.Setgroups(u.Groups); err != nil {
		return fmt.Errorf("set its groups: %w", err)
	}
	if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return fmt.Errorf("set its group: %w", err)
	}
	return syscall.Setresuid(u.UID, u.UID, u.UID)
}
