package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/localsocket"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// sandboxOptions are the flags about what a capture may do once everything is attached and open.
type sandboxOptions struct {
	user string
	off  bool

	box   *privilege.Sandbox // nil = --no-sandbox
	owned string             // the directory whose owner the capture becomes; "" = none
	atEnd []string           // what it keeps CAP_NET_ADMIN for
}

func (o *sandboxOptions) flags(f *pflag.FlagSet) {
	frame.NameVar(f, &o.user, "relinquish-privileges", "Z", "become this `user` once everything is open, and give the files to them (default: the caller, under sudo, doas and the like)")
	frame.NoSandboxVar(f, &o.off)
}

// plan decides what the process keeps and who it becomes, before anything is opened. The files are
// what it writes, "" for none. They are open before the process gives anything up; later is the one
// that others are made besides after that, in the same directory.
func (o *sandboxOptions) plan(later string, files ...string) (err error) {
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

// directoryOf returns the directory in which a file is, "" for what is no regular file.
func directoryOf(file string) string {
	if file == "" || frame.IsStdout(file) {
		return ""
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return ""
	}
	return filepath.Dir(file)
}

// keepNetAdmin leaves the process the capability with which it does something at its end.
func (o *sandboxOptions) keepNetAdmin(toDo string) {
	if o.box != nil && !slices.Contains(o.atEnd, toDo) {
		o.box.Keep, o.atEnd = []int{unix.CAP_NET_ADMIN}, append(o.atEnd, toDo)
	}
}

// enter gives up what the plan has not. What the process has made it gives to whom it becomes.
func (o *sandboxOptions) enter(made ...giver) error {
	if o.box == nil {
		return nil
	}
	if u := o.box.User; u != nil {
		for _, file := range made {
			if err := file.Give(u.UID, u.GID); err != nil {
				return err
			}
		}
	}
	return enterBox(o.box)
}

// strictCalls is set to "kill" by tests: a system call that is missing in the table ends the
// process then. It takes nothing away from the filter.
const strictCalls = "XDPCAP_TEST_CALLS"

// enterBox has done before what the process can do no more in the sandbox, and enters it.
func enterBox(box *privilege.Sandbox) error {
	loadTimeZone()
	box.Strict = os.Getenv(strictCalls) == "kill" && !privilege.SecureExecution()
	return explainSandbox(box.Enter())
}

// loadTimeZone has Go read the files of the time zone, which it does when it first needs them.
func loadTimeZone() { _, _ = time.Now().Zone() }

// kernelFiles are where the kernel tells of itself: what counters, sources and names need.
var kernelFiles = []string{"/proc", "/sys"}

// nameFiles are where name servers and hosts are written down. Most systems replace these files as
// a whole, so it takes the directories to find them later.
var nameFiles = []string{"/etc", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"}

// sandboxNeeds lets the capture do what it does later: read what the kernel says, and what its
// outputs need.
func (c *captureOptions) sandboxNeeds(box *privilege.Sandbox) {
	box.Work, box.Readable = []privilege.Work{privilege.BPF}, kernelFiles
	if c.listen != "" {
		box.Work = append(box.Work, privilege.Accepting)
	}
	c.outputNeeds(box)
}

// outputNeeds lets the outputs do what they do later: look at their files, connect again to those
// who get packets, and start the program of -z.
func (c *outputOptions) outputNeeds(box *privilege.Sandbox) {
	box.Programs = c.rotate.command != ""
	box.Work = append(box.Work, privilege.Files)
	if c.live.serve != "" && !slices.Contains(box.Work, privilege.Accepting) {
		box.Work = append(box.Work, privilege.Accepting)
	}
	if c.live.tls.asked() {
		x509.SystemCertPool() // which Go reads when it first needs it
	}
	if path, ok := localsocket.Path(c.live.serve); ok {
		box.Removable = []string{filepath.Dir(path)} // to remove the socket at the end
	}
	for i := range c.targets {
		u := c.targets[i].url
		if u == nil {
			continue
		}
		if !slices.Contains(box.Work, privilege.Sending) {
			box.Work = append(box.Work, privilege.Sending)
		}
		if port, err := net.LookupPort("tcp", u.Port()); u.Scheme == "tcp" && err == nil {
			box.Connect = append(box.Connect, uint16(port))
		}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			box.Readable = slices.Concat(box.Readable, nameFiles)
			box.Connect = append(box.Connect, 53) // for long answers of name servers
		}
	}
}

func explainSandbox(err error) error {
	if err != nil {
		return fmt.Errorf("give up privileges: %w: --no-sandbox keeps them", err)
	}
	return nil
}

// String says what the capture may still do.
func (o *sandboxOptions) String() string {
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
	if len(o.atEnd) > 0 {
		capabilities = "CAP_NET_ADMIN alone, to " + strings.Join(o.atEnd, " and to ")
	}
	calls := "; system calls are filtered"
	if o.box.Unfiltered != nil {
		calls = fmt.Sprintf("; system calls are not filtered: %v", o.box.Unfiltered)
	}
	return who + ", " + capabilities + ", may open files for writing " + writes + reads + calls
}

// placesOf says in which directories files may be opened.
func placesOf(directories []string) string {
	if len(directories) == 0 {
		return "nowhere"
	}
	return "in " + strings.Join(directories, ", ") + " alone"
}

// discoveryNeeds are the capabilities of counters on interfaces that are found later, where they
// trace a program or attach one of their own.
var discoveryNeeds = []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}

// tracingFiles are what is looked at to trace or attach: the kernel's own, and its modules.
var tracingFiles = append(slices.Clone(kernelFiles), "/lib/modules", "/usr/lib/modules")

// enterCounters gives up what counters do not need, unless off is set. The needs are the
// capabilities that they still use later.
func enterCounters(off, listens bool, needs []int) error {
	if off {
		return nil
	}
	box := &privilege.Sandbox{Keep: needs, Readable: kernelFiles, Work: []privilege.Work{privilege.BPF}}
	if slices.Contains(needs, unix.CAP_PERFMON) {
		box.Readable, box.Work = tracingFiles, append(box.Work, privilege.Tracing)
	}
	if listens {
		box.Work = append(box.Work, privilege.Accepting)
	}
	return enterBox(box)
}
