package privileges_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// refusedAtStart stands for the user of a capture that does not begin.
const refusedAtStart = -1

// An ownedPlace is a directory with an owner, and the users that captures become when they write
// there: captures of root, of root with -Z nobody, and of root under sudo of nobody.
type ownedPlace struct {
	name     string
	uid      int
	mode     os.FileMode
	readOnly bool   // its mount is read-only
	single   [3]int // for captures of one file
	series   [3]int // for captures that create several files, or rename them
}

const no = refusedAtStart

var ownedPlaces = []ownedPlace{
	{"root's", 0, 0o755, false, [3]int{0, systest.Nobody, 0}, [3]int{0, no, 0}},
	{"the user's", systest.Nobody, 0o755, false, [3]int{0, systest.Nobody, systest.Nobody}, [3]int{systest.Nobody, systest.Nobody, systest.Nobody}},
	{"a volume", systest.Volume, 0o755, false, [3]int{0, systest.Nobody, 0}, [3]int{systest.Volume, no, systest.Volume}},
	{"sticky", 0, 0o777 | os.ModeSticky, false, [3]int{0, systest.Nobody, systest.Nobody}, [3]int{0, systest.Nobody, systest.Nobody}},
	{"for reading", systest.Nobody, 0o555, false, [3]int{0, systest.Nobody, 0}, [3]int{no, no, no}},
	{"on a mount for reading", 0, 0o777, true, [3]int{no, no, no}, [3]int{no, no, no}},
}

// make makes the directory.
func (o *ownedPlace) make(t *testing.T) string {
	t.Helper()
	dir := systest.DirectoryFor(t, o.uid)
	if o.readOnly {
		testnet.MustMount(t, "tmpfs", dir, unix.MS_RDONLY, "")
		return dir
	}
	testnet.Must(t, os.Chmod(dir, o.mode))
	return dir
}

// ownedWays are the ways in which a capture writes. Each sends packets until these files exist, and
// inserts the file's name and a command.
var ownedWays = []struct {
	name   string
	single bool
	args   string
	most   int      // sent packets, because each third one starts a command; 0 = any number
	files  []string // that exist before the end
	done   []string // that exist after the end
	signal os.Signal
}{
	{name: "one file", single: true, args: "-w DIR/out --json=DIR/counts", files: []string{"out", "counts"}, done: []string{"out", "counts"}},
	{name: "-C, -W and -z", args: "-w DIR/out -C 3k -W 3 -z COMMAND", most: 15, files: []string{"out1", "out1.done"}, done: []string{"out2.done"}},
	{name: "-G", args: "-w DIR/out%s -G 1", files: []string{"out*", "2"}},
	{name: "-b, atomic", args: "-w DIR/out -b packets:5 --atomic", files: []string{"out_00002_*"}, done: []string{"out_00001_*"}},
	{name: "--atomic", args: "-w DIR/out --atomic", files: []string{"out.partial"}, done: []string{"out"}},
	{name: "--ring", args: "-w DIR/out --ring 1M", signal: unix.SIGUSR2, files: []string{"out-2"}, done: []string{"out-2"}},
}

// A capture into such a directory creates its second file as the user that it announces. Otherwise
// it is refused before the first packet, with one line, and leaves no file.
func TestOwners(t *testing.T) {
	t.Parallel()
	bin := systest.DirectoryFor(t, 0)
	testnet.Must(t, os.Chmod(bin, 0o755))
	script := bin + "/script"
	testnet.Must(t, os.WriteFile(script, []byte("#!/bin/sh\necho done >$1.done\n"), 0o755))
	for _, place := range ownedPlaces {
		for _, way := range ownedWays {
			for i, who := range []string{"root", "-Z", "sudo"} {
				want := place.series[i]
				if way.single {
					want = place.single[i]
				}
				t.Run(place.name+", "+way.name+", "+who, func(t *testing.T) {
					t.Parallel()
					pair := testnet.MustPair(t, testnet.PairOptions{})
					dir := place.make(t)
					args := strings.Fields(strings.NewReplacer("DIR", dir, "COMMAND", script).Replace(way.args))
					args = append(args, "-i", pair.RxName, "-v", "-U")
					if who == "-Z" {
						args = append(args, "-Z", "nobody")
					}
					cmd := systest.Command(args...)
					if who == "sudo" {
						cmd.Env = append(cmd.Env, fmt.Sprintf("SUDO_UID=%d", systest.Nobody), fmt.Sprintf("SUDO_GID=%d", systest.Nobody))
					}
					p := systest.StartCommand(t, pair.Rx, nil, cmd)
					if want == refusedAtStart {
						status, stderr := p.Wait()
						systest.OneLine(t, status, stderr, dir, map[bool]string{true: "read-only file system", false: "permission denied"}[place.readOnly])
						if !place.readOnly {
							systest.OneLine(t, status, stderr, []string{"root without capabilities", "user nobody", "root without capabilities"}[i])
							if !way.single {
								systest.OneLine(t, status, stderr, []string{"(--no-sandbox)", "(--no-sandbox without -Z)", "(--no-sandbox)"}[i])
							}
						}
						if left, _ := os.ReadDir(dir); len(left) > 0 {
							t.Errorf("it has left %v", left)
						}
						return
					}
					p.Listening()
					if way.single && want == 0 {
						isUser(t, p, anybody) // and the files stay root's
					} else {
						isUser(t, p, want)
					}
					checkPowerless(t, p)
					sent := 0
					testnet.WaitFor(t, fmt.Sprintf("%q", way.files), func() bool {
						if way.most == 0 || sent < way.most {
							testnet.Send(t, pair, testnet.UDPFrame(1000, 0))
							sent++
						}
						if way.signal != nil {
							p.Cmd.Process.Signal(way.signal)
						}
						return areThere(dir, way.files)
					})
					said := p.Interrupt()
					if owns := strings.Contains(said, ", who owns "+dir+", "); owns != (want == systest.Volume || who == "root" && want != 0) {
						t.Errorf("it becomes the directory's owner: %v: %s", owns, said)
					}
					if !areThere(dir, way.done) {
						t.Errorf("%q are not there", way.done)
					}
					made, _ := filepath.Glob(dir + "/*")
					for _, file := range made {
						if got := systest.OwnerOf(t, file); got != want {
							t.Errorf("%s belongs to %d, want %d", file, got, want)
						}
						if strings.HasSuffix(file, ".partial") || strings.Contains(file, ".xdpcap") {
							t.Errorf("it has left %s", file)
						}
					}
				})
			}
		}
	}
}

// areThere reports whether there is a file for each pattern. A number after a pattern is the number
// of files.
func areThere(dir string, patterns []string) bool {
	for i, pattern := range patterns {
		want := 1
		if n, err := strconv.Atoi(pattern); err == nil && i > 0 {
			pattern, want = patterns[i-1], n
		}
		if found, _ := filepath.Glob(dir + "/" + pattern); len(found) < want {
			return false
		}
	}
	return true
}

// An existing file is emptied only if it belongs to root or the user, or to the owner of its
// directory and the user may write to it. A link of the user never leads to a file, in any
// combination.
func TestOwnersOfFiles(t *testing.T) {
	t.Parallel()
	const old = "what was there"
	makeFile := func(uid int, mode os.FileMode) func(path string) error {
		return func(path string) error {
			if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
				return err
			}
			if err := os.Chmod(path, mode); err != nil {
				return err
			}
			return os.Chown(path, uid, uid)
		}
	}
	// The link belongs to the user, and leads to a file of root.
	link := func(make func(old, new string) error) func(path string) error {
		return func(path string) error {
			secret := path + ".secret"
			if err := makeFile(0, 0o600)(secret); err != nil {
				return err
			}
			if err := make(secret, path); err != nil {
				return err
			}
			if file, _ := os.Lstat(path); file.Mode().IsRegular() {
				return nil // both names have the same inode, so a change of owner would change both
			}
			return os.Lchown(path, systest.Nobody, systest.Nobody)
		}
	}
	rootsLink := func(path string) error {
		return errors.Join(makeFile(0, 0o600)(path+".behind"), os.Symlink(path+".behind", path))
	}
	for _, test := range []struct {
		name string
		uid  int // of the directory
		mode os.FileMode
		make func(path string) error
		args string
		want string // part of the error line; "" = the file is written
	}{
		{"root's", systest.Nobody, 0o755, makeFile(0, 0o600), "-Z nobody", ""},
		{"the user's where only root can go", 0, 0o700, makeFile(systest.Nobody, 0o600), "-Z nobody", ""},
		{"the user's", systest.Nobody, 0o755, makeFile(systest.Nobody, 0o600), "-Z nobody", ""},
		{"the user's of root", systest.Nobody, 0o755, makeFile(systest.Nobody, 0o600), "", ""},
		{"somebody's", systest.Nobody, 0o755, makeFile(systest.Volume, 0o600), "-Z nobody", "it belongs to another user, with id 4000000"},
		{"somebody's of root", 0, 0o755, makeFile(systest.Volume, 0o600), "", "it belongs to another user, with id 4000000"},
		{"somebody's for all", 0, 0o755, makeFile(systest.Volume, 0o666), "", "it belongs to another user, with id 4000000"},
		{"somebody's for all, by -Z", 0, 0o755, makeFile(systest.Volume, 0o666), "-Z nobody", "it belongs to another user, with id 4000000"},
		{"somebody's, in a series", systest.Nobody, 0o755, makeFile(systest.Volume, 0o600), "-Z nobody -C 1M", "permission denied"},
		{"somebody's, that --atomic cannot replace", 0, 0o777 | os.ModeSticky, makeFile(systest.Volume, 0o600), "-Z nobody --atomic", "operation not permitted"},
		{"a symbolic link", systest.Nobody, 0o755, link(os.Symlink), "-Z nobody", "as user nobody: "},
		{"a symbolic link, by sudo", systest.Nobody, 0o755, link(os.Symlink), "sudo", "as user nobody: "},
		{"a symbolic link, and a mistake", systest.Nobody, 0o755, link(os.Symlink), "-Z nobody --no-such-flag", "symbolic link"},
		{"a symbolic link, and no such user", systest.Nobody, 0o755, link(os.Symlink), "-Z no-such-user", "symbolic link"},
		{"a hard link", systest.Nobody, 0o755, link(os.Link), "-Z nobody", "it has a second name"},
		{"a symbolic link, by root", systest.Nobody, 0o755, link(os.Symlink), "", "is a symbolic link that may not be root's own"},
		{"a symbolic link, with all rights", systest.Nobody, 0o755, link(os.Symlink), "--no-sandbox", "is a symbolic link that may not be root's own"},
		{"a symbolic link, in a series", systest.Nobody, 0o777, link(os.Symlink), "-C 1M", "is a symbolic link that may not be root's own"},
		{"a hard link, by root", systest.Nobody, 0o755, link(os.Link), "", "it has a second name"},
		{"root's own link", 0, 0o755, rootsLink, "", ""},
	} {
		for _, output := range []string{"-w", "--json"} {
			mistake := strings.Contains(test.args, "no-such")
			if output == "-w" && mistake || output == "--json" && (strings.Contains(test.args, "-C") || strings.Contains(test.args, "atomic")) {
				continue
			}
			t.Run(test.name+", "+output, func(t *testing.T) {
				t.Parallel()
				pair := testnet.MustPair(t, testnet.PairOptions{})
				dir := (&ownedPlace{uid: test.uid, mode: test.mode}).make(t)
				path := dir + "/out"
				testnet.Must(t, test.make(path))
				args := []string{"-i", pair.RxName, "--json=" + path, "-w", os.DevNull}
				if output == "-w" {
					args = []string{"-i", pair.RxName, "-w", path}
				}
				sudo := test.args == "sudo"
				if !sudo {
					args = append(args, strings.Fields(test.args)...)
				}
				if test.want != "" {
					args = append(args, "--duration", "1s") // ends a capture that wrongly begins
				}
				cmd := systest.Command(args...)
				if sudo {
					cmd.Env = append(cmd.Env, fmt.Sprintf("SUDO_UID=%d", systest.Nobody))
				}
				p := systest.StartCommand(t, pair.Rx, nil, cmd)
				if test.want != "" {
					status, stderr := p.Wait()
					if !mistake {
						systest.OneLine(t, status, stderr, path, test.want)
					} else if status != 1 || !strings.Contains(stderr, test.want) {
						t.Errorf("exit status %d: %s", status, stderr)
					}
					if got := systest.Contents(t, path); got != old {
						t.Errorf("%s has %q now", path, got)
					}
					return
				}
				owner := systest.OwnerOf(t, path)
				p.Listening().Interrupt()
				if got := systest.Contents(t, path); got == old || got == "" {
					t.Errorf("%s has %q still", path, got)
				}
				if got := systest.OwnerOf(t, path); got != owner {
					t.Errorf("it belongs to %d", got)
				}
			})
		}
	}
}

// A capture detects at the start that it cannot create a later file, and changes no file.
func TestOwnersOfLaterFiles(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		name   string
		mode   os.FileMode // of the user's directory
		file   string      // another user's file in it
		rights os.FileMode // of the file
		args   string
		words  []string
	}{
		{"the next one", 0o755, "out1", 0o600, "-C 1M", []string{"DIR/out1", "permission denied", "as user nobody"}},
		{"the next one, for all", 0o755, "out1", 0o666, "-C 1M", []string{"DIR/out1: it belongs to another user, with id 4000000"}},
		{"all of a ring", 0o755, "out", 0o600, "-C 1M -W 1", []string{"DIR/out", "permission denied"}},
		{"the next one, that is to be kept", 0o755, "out1", 0o666, "-C 1M --no-overwrite", []string{"DIR/out1: a file of this name already exists"}},
		{"a partial one", 0o755, "out.partial", 0o600, "--atomic", []string{"DIR/out.partial", "permission denied"}},
		{"the command", 0o755, "command", 0o700, "-z DIR/command", []string{"-z DIR/command: permission denied"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			owner := systest.Nobody
			if test.mode&os.ModeSticky != 0 {
				owner = 0
			}
			dir := (&ownedPlace{uid: owner, mode: test.mode}).make(t)
			path := dir + "/" + test.file
			testnet.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600))
			for _, err := range []error{os.Chmod(path, test.rights), os.Chown(path, systest.Volume, systest.Volume)} {
				testnet.Must(t, err)
			}
			args := strings.Fields(strings.ReplaceAll(test.args, "DIR", dir))
			p := systest.Start(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", dir+"/out", "-Z", "nobody", "--duration", "1s")...)
			status, stderr := p.Wait()
			for _, words := range test.words {
				systest.OneLine(t, status, stderr, strings.ReplaceAll(words, "DIR", dir))
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 || systest.Contents(t, path) != "#!/bin/sh\n" {
				t.Errorf("it has left %v", left)
			}
		})
	}
}

// The file of --json stays unchanged until the capture has begun, and then has one object.
func TestJSONBegins(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := filepath.Join(t.TempDir(), "counts")
	fifo := filepath.Join(t.TempDir(), "fifo")
	testnet.Must(t, os.WriteFile(file, []byte("before"), 0o600))
	testnet.Must(t, syscall.Mkfifo(fifo, 0o600))
	p := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", fifo, "--json="+file)
	testnet.WaitFor(t, "the capture to open its files", func() bool {
		stack, _ := filepath.Glob("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/fd/*")
		return slices.ContainsFunc(stack, func(fd string) bool { at, _ := os.Readlink(fd); return at == file })
	})
	if got := systest.Contents(t, file); got != "before" {
		t.Errorf("%q while it waits for the reader of the fifo", got)
	}
	reader, err := os.Open(fifo)
	testnet.Must(t, err)
	defer reader.Close()
	p.Listening()
	if got := systest.Contents(t, file); got != "" {
		t.Errorf("%q while it captures", got)
	}
	p.Interrupt()
	if all := systest.Summaries(t, systest.Contents(t, file)); len(all) != 1 {
		t.Errorf("%v", all)
	}
}
