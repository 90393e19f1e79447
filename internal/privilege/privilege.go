// Package privilege takes from this process, for good, what it does not need any more: its
// capabilities, its user, and the right to open files, connect, and start programs.
package privilege

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// A Sandbox is what a process keeps.
type Sandbox struct {
	// User is whom the process becomes; nil = it stays who it is.
	User *User

	// Writable are directories, with all below them, and files that may still be opened, for
	// reading and writing. In the directories files may be made, renamed and removed, too. What is
	// open already stays as it is.
	Writable []string

	// Removable are directories in which files may be removed, and those below, but not made or
	// opened.
	Removable []string

	// Readable are directories, with all below them, that may be read besides. One that does not
	// exist is passed over.
	Readable []string

	// Connect are TCP ports that connections may be made to. No other can be made, and no port be
	// taken; sockets that are open stay as they are, and listen on.
	Connect []uint16

	// Programs says that the process starts others. What they read, execute and connect to, and
	// whom they signal, is nobody's to know, so it is not restricted then; what is written is.
	Programs bool

	// Work is what the process goes on to do. System calls that take no part in it fail with EPERM,
	// unless it starts programs, which would have the same filter.
	Work []Work

	// Strict ends the process at such a call instead. It is for tests, which find them by it.
	Strict bool

	// Keep are capabilities, by their numbers in capabilities(7), that stay where the process has
	// them, also where it becomes another user. What it executes has none of them.
	Keep []int

	// Unfiltered is set by Enter where system calls are not filtered, and says why.
	Unfiltered error
}

// errPrograms is why a process that starts others has no filter.
var errPrograms = errors.New("the programs that it starts would have the same filter")

// Enter leaves all threads of the process, and what it starts from now on, with no more than the
// sandbox has. What this kernel's Landlock does not know stays as it was: see [LandlockABI].
// After an error the process may have lost a part. It is called once, and not concurrently.
func (s *Sandbox) Enter() error {
	// A program with more privileges than the process that executes it, such as one that belongs to
	// root and is set-user-ID, gives them no more. An unprivileged process needs that for Landlock.
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

// dropBounding empties the set that limits what executed programs can get, if this process may.
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

// holds tells whether this process has a capability.
func holds(c cap.Value) bool {
	has, err := cap.GetProc().GetFlag(cap.Effective, c)
	return err == nil && has
}

// dropCapabilities keeps, of the permitted and effective ones, only some, and of the inheritable
// and ambient ones none.
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
	return left.SetProc() // ambient ones go with the inheritable ones
}

// become changes all threads to the user. The kernel takes all capabilities then, or with keep only
// the effective ones, so that the permitted ones can be taken up again.
func (u *User) become(keep bool) error {
	if keep {
		if _, err := cap.Prctlw(unix.PR_SET_KEEPCAPS, 1); err != nil {
			return fmt.Errorf("keep capabilities: %w", err)
		}
		defer cap.Prctlw(unix.PR_SET_KEEPCAPS, 0) // for no other change of the user
	}
	if err := syscall.Setgroups(u.Groups); err != nil {
		return fmt.Errorf("set its groups: %w", err)
	}
	if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return fmt.Errorf("set its group: %w", err)
	}
	return syscall.Setresuid(u.UID, u.UID, u.UID)
}
