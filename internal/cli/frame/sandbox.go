package frame

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
)

// A Sandbox has the flags about the rights of a capture after everything is attached and open, and
// the plan that follows from them. First Plan is called, then the methods that add to the plan, and
// Enter last.
type Sandbox struct {
	user string // -Z; "" = it was not given
	off  bool   // --no-sandbox

	box      *privilege.Sandbox // nil = --no-sandbox, or before Plan
	owned    string             // the directory whose owner the capture becomes; "" = none
	atEnd    []string           // purposes of CAP_NET_ADMIN at the end
	attaches bool               // KeepAttaching was called
}

// Flags are the flags.
func (o *Sandbox) Flags() []Flag {
	return []Flag{
		{Name: "relinquish-privileges", Letter: "Z", Value: (*Name)(&o.user), Settings: GrantsRights,
			Help: "become this `user` once everything is open, and give the files to them (default: the caller, under sudo, doas and the like; otherwise root becomes xdpcap or nobody, who gets no files, unless it makes more of them later)"},
		NoSandboxFlag(&o.off),
	}
}

// Plan chooses the user and the rights of the process in the sandbox, before anything is opened.
// files are the files that it opens before it enters the sandbox. In the directory of later it
// creates more files afterwards. "" is no file.
func (o *Sandbox) Plan(later string, files ...string) (err error) {
	switch {
	case o.off && o.user != "":
		return errors.New("-Z and --no-sandbox: choose one")
	case o.off:
		return nil
	}
	o.box = &privilege.Sandbox{}
	directory := directoryOf(later)
	if directory != "" {
		o.box.Writable = []string{directory}
	}
	var all []string
	for _, file := range append(files, later) {
		if dir := directoryOf(file); dir != "" {
			all = append(all, dir)
		}
	}
	o.box.User, err = o.chooseUser(all, directory)
	return err
}

// directoryOf returns the directory of a file; "" if it is not a regular file.
func directoryOf(file string) string {
	if file == "" || IsStdout(file) {
		return ""
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return ""
	}
	return filepath.Dir(file)
}

// KeepNetAdmin keeps CAP_NET_ADMIN for a purpose at the end, such as "remove the filter of clsact".
func (o *Sandbox) KeepNetAdmin(purpose string) {
	if o.box != nil && !slices.Contains(o.atEnd, purpose) {
		o.box.Keep, o.atEnd = []int{unix.CAP_NET_ADMIN}, append(o.atEnd, purpose)
	}
}

// KeepAttaching keeps the rights to load programs and attach them to interfaces that appear later.
// It is called after KeepNetAdmin, and after the caller has changed the Box.
func (o *Sandbox) KeepAttaching() {
	if o.box == nil {
		return
	}
	o.attaches = true
	o.box.Keep = []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
	o.box.Readable = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.box.Readable, tracingFiles))))
	if !slices.Contains(o.box.Work, privilege.Tracing) {
		o.box.Work = append(o.box.Work, privilege.Tracing)
	}
}

// Box returns the rights of the plan, to which the caller adds those that its outputs need; nil
// with --no-sandbox.
func (o *Sandbox) Box() *privilege.Sandbox { return o.box }

// Enter drops all rights that are not in the plan. It gives the files in made to the user of the
// plan. If the plan has no user, root becomes an unprivileged user, who gets no files, unless the
// capture creates or removes files later, starts programs, or has files on FUSE. A restriction that
// this kernel does not support is a notice.
func (o *Sandbox) Enter(notice func(error), made ...Giver) error {
	if o.box == nil {
		return nil
	}
	if u := o.box.User; u != nil {
		for _, file := range made {
			if err := file.Give(u.UID, u.GID); err != nil {
				return err
			}
		}
	} else if box := o.box; o.user == "" && len(box.Writable)+len(box.Removable) == 0 && !box.Programs {
		box.User = unprivileged()
	}
	return enterBox(o.box, notice)
}

// unprivileged returns the user that root becomes if it needs no rights of root; nil = it stays
// root.
func unprivileged() *privilege.User {
	if hasFUSE() {
		return nil
	}
	return privilege.Unprivileged()
}

// hasFUSE reports whether this process has an open file on a file system in user space, such as
// sshfs. Only the user who has mounted such a file system can use its files, even open ones.
func hasFUSE() bool {
	const own = "/proc/self/fd"
	open, err := os.ReadDir(own)
	return err == nil && slices.ContainsFunc(open, func(e os.DirEntry) bool {
		fd, err := strconv.Atoi(e.Name())
		var s unix.Statfs_t
		return err == nil && unix.Fstatfs(fd, &s) == nil && s.Type == unix.FUSE_SUPER_MAGIC
	})
}

// strictCalls is a variable that tests set to "kill": then a system call that the sandbox does not
// permit kills the process, instead of failing.
const strictCalls = "XDPCAP_TEST_CALLS"

// enterBox reads the time zone, which is impossible in the sandbox, and then enters it.
func enterBox(box *privilege.Sandbox, notice func(error)) error {
	loadTimeZone()
	box.Strict = os.Getenv(strictCalls) == "kill" && !privilege.SecureExecution()
	if err := box.Enter(); err != nil {
		return fmt.Errorf("give up privileges: %w: --no-sandbox keeps them", err)
	}
	if privilege.LandlockABI() == 0 {
		notice(errors.New("not restricted to files and ports: this kernel or container has no Landlock: " +
			"add landlock to the kernel's parameter lsm=, or allow its system calls"))
	}
	if box.Unfiltered != nil && !box.Programs {
		notice(fmt.Errorf("not restricted to some system calls: %w", box.Unfiltered))
	}
	return nil
}

// loadTimeZone makes Go read the files of the time zone now, instead of when it first formats a
// time.
func loadTimeZone() { _, _ = time.Now().Zone() }

// KernelFiles are the kernel's own files, from which counters, statistics and names are read.
var KernelFiles = []string{"/proc", "/sys"}

// NamespaceFiles are the directories in which ip-netns and Docker name network namespaces.
var NamespaceFiles = []string{"/run/netns", "/run/docker/netns"}

// String describes the remaining rights of the capture.
func (o *Sandbox) String() string {
	if o.box == nil {
		return "kept as they were"
	}
	who := fmt.Sprintf("user id %d", os.Geteuid())
	if o.box.User != nil {
		who = o.who()
	}
	if o.owned != "" {
		who += ", who owns " + o.owned
	}
	writes, reads := placesOf(o.box.Writable), placesOf(o.box.Readable)
	switch {
	case privilege.LandlockABI() == 0:
		writes, reads = "and for reading anywhere, since this kernel has no Landlock", ""
	case o.box.Programs:
		reads = ", for reading anywhere, since -z starts a program"
	default:
		reads = ", for reading " + reads
	}
	if privilege.LandlockABI() > 0 && len(o.box.Removable) > 0 {
		writes += ", may remove files " + placesOf(o.box.Removable)
	}
	capabilities := "no capabilities"
	switch {
	case o.attaches:
		capabilities = "the capabilities to attach to interfaces that come later"
	case len(o.atEnd) > 0:
		capabilities = "CAP_NET_ADMIN alone, to " + strings.Join(o.atEnd, " and to ")
	}
	calls := "; system calls are filtered"
	if o.box.Unfiltered != nil {
		calls = fmt.Sprintf("; system calls are not filtered: %v", o.box.Unfiltered)
	}
	return who + ", " + capabilities + ", may open files for writing " + writes + reads + calls
}

// placesOf names directories, for String.
func placesOf(directories []string) string {
	if len(directories) == 0 {
		return "nowhere"
	}
	return "in " + strings.Join(directories, ", ") + " alone"
}

// tracingFiles are needed to trace or attach: the kernel's own files, and its modules.
var tracingFiles = append(slices.Clone(KernelFiles), "/lib/modules", "/usr/lib/modules")

// EnterCounters enters the sandbox of the commands that count, unless off is set. listens is true
// if they serve metrics. needs are the capabilities that they still use. Notices go to stderr.
func EnterCounters(p *Process, off, listens bool, needs []int) error {
	if off {
		return nil
	}
	box := &privilege.Sandbox{User: unprivileged(), Keep: needs, Readable: slices.Concat(KernelFiles, NamespaceFiles), Work: []privilege.Work{privilege.BPF}}
	if slices.Contains(needs, unix.CAP_PERFMON) {
		box.Readable, box.Work = slices.Concat(tracingFiles, NamespaceFiles), append(box.Work, privilege.Tracing)
	}
	if listens {
		box.Work = append(box.Work, privilege.Accepting)
	}
	return enterBox(box, func(err error) { Say(p.Stderr, "%v", err) })
}

// A Giver is an output whose files can be given to another user and group.
type Giver interface{ Give(uid, gid int) error }
