package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// volume is a user without a name, as the owner of a container's volume has none there.
const volume = 4_000_000

// refusedAtStart stands for the user of a capture that does not begin.
const refusedAtStart = -1

// An ownedPlace is a directory with an owner, and the users that captures become when they write
// there: captures of root, of root with -Z nobody, and of root under sudo of nobody.
type ownedPlace struct {
	name     string
	uid      int
	mode     os.FileMode
	readOnly bool   // its mount is
	single   [3]int // that write one file
	series   [3]int // that make several, or rename them
}

const no = refusedAtStart

var ownedPlaces = []ownedPlace{
	{"root's", 0, 0o755, false, [3]int{0, nobody, 0}, [3]int{0, no, 0}},
	{"the user's", nobody, 0o755, false, [3]int{0, nobody, nobody}, [3]int{nobody, nobody, nobody}},
	{"a volume", volume, 0o755, false, [3]int{0, nobody, 0}, [3]int{volume, no, volume}},
	{"sticky", 0, 0o777 | os.ModeSticky, false, [3]int{0, nobody, nobody}, [3]int{0, nobody, nobody}},
	{"for reading", nobody, 0o555, false, [3]int{0, nobody, 0}, [3]int{no, no, no}},
	{"on a mount for reading", 0, 0o777, true, [3]int{no, no, no}, [3]int{no, no, no}},
}

// make makes the directory.
func (o *ownedPlace) make(t *testing.T) string {
	t.Helper()
	dir := directoryFor(t, o.uid)
	if o.readOnly {
		testnet.MustMount(t, "tmpfs", dir, unix.MS_RDONLY, "")
		return dir
	}
	if err := os.Chmod(dir, o.mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ownedWays are the ways in which a capture writes. Each sends packets until there are these files,
// and takes some words for the file's name and a command.
var ownedWays = []struct {
	name   string
	single bool
	args   string
	most   int      // packets that are sent, because each third one starts a command; 0 = any number
	files  []string // that are there before the end
	done   []string // and then
	signal os.Signal
}{
	{name: "one file", single: true, args: "-w DIR/out --json=DIR/counts", files: []string{"out", "counts"}, done: []string{"out", "counts"}},
	{name: "-C, -W and -z", args: "-w DIR/out -C 3k -W 3 -z COMMAND", most: 15, files: []string{"out1", "out1.done"}, done: []string{"out2.done"}},
	{name: "-G", args: "-w DIR/out%s -G 1", files: []string{"out*", "2"}},
	{name: "-b, atomic", args: "-w DIR/out -b packets:5 --atomic", files: []string{"out_00002_*"}, done: []string{"out_00001_*"}},
	{name: "--atomic", args: "-w DIR/out --atomic", files: []string{"out.partial"}, done: []string{"out"}},
	{name: "--ring", args: "-w DIR/out --ring 1M", signal: unix.SIGUSR2, files: []string{"out-2"}, done: []string{"out-2"}},
}

// A capture into such a directory creates its second file as the user that it announces. Or it is
// refused before the first packet, with one line, and leaves no file.
func TestOwners(t *testing.T) {
	skipEmulated(t)
	bin := directoryFor(t, 0)
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := bin + "/script"
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho done >$1.done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, place := range ownedPlaces {
		for _, way := range ownedWays {
			for i, who := range []string{"root", "-Z", "sudo"} {
				want := place.series[i]
				if way.single {
					want = place.single[i]
				}
				t.Run(place.name+", "+way.name+", "+who, func(t *testing.T) {
					dir := place.make(t)
					args := strings.Fields(strings.NewReplacer("DIR", dir, "COMMAND", script).Replace(way.args))
					args = append(args, "-i", pair.RxName, "-v", "-U")
					if who == "-Z" {
						args = append(args, "-Z", "nobody")
					}
					cmd := command(args...)
					if who == "sudo" {
						cmd.Env = append(cmd.Env, fmt.Sprintf("SUDO_UID=%d", nobody), fmt.Sprintf("SUDO_GID=%d", nobody))
					}
					p := startCommand(t, pair.Rx, nil, cmd)
					if want == refusedAtStart {
						status, stderr := p.wait()
						oneLine(t, status, stderr, dir, map[bool]string{true: "read-only file system", false: "permission denied"}[place.readOnly])
						if !place.readOnly {
							oneLine(t, status, stderr, []string{"root without capabilities", "user nobody", "root without capabilities"}[i])
							if !way.single {
								oneLine(t, status, stderr, []string{"(--no-sandbox)", "(--no-sandbox without -Z)", "(--no-sandbox)"}[i])
							}
						}
						if left, _ := os.ReadDir(dir); len(left) > 0 {
							t.Errorf("it has left %v", left)
						}
						return
					}
					p.listening()
					if got := rights(t, p, "Uid"); !slices.Equal(got, []string{fmt.Sprintf("Uid: %[1]d %[1]d %[1]d %[1]d", want)}) {
						t.Errorf("it is %q, want %d", got, want)
					}
					checkPowerless(t, p)
					sent := 0
					testnet.WaitFor(t, fmt.Sprintf("%q", way.files), func() bool {
						if way.most == 0 || sent < way.most {
							testnet.Send(t, pair, testnet.UDPFrame(1000, 0))
							sent++
						}
						if way.signal != nil {
							p.cmd.Process.Signal(way.signal)
						}
						return areThere(dir, way.files)
					})
					p.interrupt()
					if !areThere(dir, way.done) {
						t.Errorf("%q are not there", way.done)
					}
					made, _ := filepath.Glob(dir + "/*")
					for _, file := range made {
						if got := ownerOf(t, file); got != want {
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

// areThere says whether there is a file for each pattern. A number after a pattern says how many
// files.
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
// directory and the user may write to it. A link of the user never leads to a file, whatever else
// is wrong.
func TestOwnersOfFiles(t *testing.T) {
	skipEmulated(t)
	const old = "what was there"
	pair := testnet.MustPair(t, testnet.PairOptions{})
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
				return nil // to change the owner of one name is to change that of the other
			}
			return os.Lchown(path, nobody, nobody)
		}
	}
	for _, test := range []struct {
		name string
		uid  int // of the directory
		mode os.FileMode
		make func(path string) error
		args string
		want string // of the line that refuses; "" = it is written to
	}{
		{"root's", nobody, 0o755, makeFile(0, 0o600), "-Z nobody", ""},
		{"the user's where only root can go", 0, 0o700, makeFile(nobody, 0o600), "-Z nobody", ""},
		{"the user's", nobody, 0o755, makeFile(nobody, 0o600), "-Z nobody", ""},
		{"the user's of root", nobody, 0o755, makeFile(nobody, 0o600), "", ""},
		{"somebody's", nobody, 0o755, makeFile(volume, 0o600), "-Z nobody", "it belongs to another user, with id 4000000"},
		{"somebody's of root", 0, 0o755, makeFile(volume, 0o600), "", "it belongs to another user, with id 4000000"},
		{"somebody's for all", 0, 0o755, makeFile(volume, 0o666), "", "it belongs to another user, with id 4000000"},
		{"somebody's for all, by -Z", 0, 0o755, makeFile(volume, 0o666), "-Z nobody", "it belongs to another user, with id 4000000"},
		{"somebody's, in a series", nobody, 0o755, makeFile(volume, 0o600), "-Z nobody -C 1M", "permission denied"},
		{"somebody's, that --atomic cannot replace", 0, 0o777 | os.ModeSticky, makeFile(volume, 0o600), "-Z nobody --atomic", "operation not permitted"},
		{"a symbolic link", nobody, 0o755, link(os.Symlink), "-Z nobody", "as user nobody: "},
		{"a symbolic link, by sudo", nobody, 0o755, link(os.Symlink), "sudo", "as user nobody: "},
		{"a symbolic link, and a mistake", nobody, 0o755, link(os.Symlink), "-Z nobody --no-such-flag", "symbolic link"},
		{"a symbolic link, and no such user", nobody, 0o755, link(os.Symlink), "-Z no-such-user", "symbolic link"},
		{"a hard link", nobody, 0o755, link(os.Link), "-Z nobody", "it has a second name"},
	} {
		for _, output := range []string{"-w", "--json"} {
			mistake := strings.Contains(test.args, "no-such")
			if output == "-w" && mistake || output == "--json" && (strings.Contains(test.args, "-C") || strings.Contains(test.args, "atomic")) {
				continue
			}
			t.Run(test.name+", "+output, func(t *testing.T) {
				dir := (&ownedPlace{uid: test.uid, mode: test.mode}).make(t)
				path := dir + "/out"
				if err := test.make(path); err != nil {
					t.Fatal(err)
				}
				args := []string{"-i", pair.RxName, "--json=" + path, "-w", os.DevNull}
				if output == "-w" {
					args = []string{"-i", pair.RxName, "-w", path}
				}
				sudo := test.args == "sudo"
				if !sudo {
					args = append(args, strings.Fields(test.args)...)
				}
				cmd := command(args...)
				if sudo {
					cmd.Env = append(cmd.Env, fmt.Sprintf("SUDO_UID=%d", nobody))
				}
				p := startCommand(t, pair.Rx, nil, cmd)
				if test.want != "" {
					status, stderr := p.wait()
					if !mistake {
						oneLine(t, status, stderr, path, test.want)
					} else if status != 1 || !strings.Contains(stderr, test.want) {
						t.Errorf("exit status %d: %s", status, stderr)
					}
					if got := contents(t, path); got != old {
						t.Errorf("%s has %q now", path, got)
					}
					return
				}
				owner := ownerOf(t, path)
				p.listening().interrupt()
				if got := contents(t, path); got == old || got == "" {
					t.Errorf("%s has %q still", path, got)
				}
				if got := ownerOf(t, path); got != owner {
					t.Errorf("it belongs to %d", got)
				}
			})
		}
	}
}

// A capture finds at the start that it cannot create a later file, and changes nothing.
func TestOwnersOfLaterFiles(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		name   string
		mode   os.FileMode // of the directory, which belongs to the user
		file   string      // that somebody has in it
		rights os.FileMode // of the file
		args   string
		words  []string
	}{
		{"the next one", 0o755, "out1", 0o600, "-C 1M", []string{"DIR/out1", "permission denied", "as user nobody"}},
		{"the next one, for all", 0o755, "out1", 0o666, "-C 1M", []string{"DIR/out1: it belongs to another user, with id 4000000"}},
		{"one of a ring", 0o755, "out2", 0o600, "-C 1M -W 4", []string{"DIR/out2", "permission denied"}},
		{"one of a ring, that cannot be removed", 0o777 | os.ModeSticky, "out2", 0o600, "-C 1M -W 4", []string{"replace DIR/out2: operation not permitted"}},
		{"the next one, that is to be kept", 0o755, "out1", 0o666, "-C 1M --no-overwrite", []string{"DIR/out1: a file of this name already exists"}},
		{"a partial one", 0o755, "out.partial", 0o600, "--atomic", []string{"DIR/out.partial", "permission denied"}},
		{"the command", 0o755, "command", 0o700, "-z DIR/command", []string{"-z DIR/command: permission denied"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			owner := nobody
			if test.mode&os.ModeSticky != 0 {
				owner = 0
			}
			dir := (&ownedPlace{uid: owner, mode: test.mode}).make(t)
			path := dir + "/" + test.file
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{os.Chmod(path, test.rights), os.Chown(path, volume, volume)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			args := strings.Fields(strings.ReplaceAll(test.args, "DIR", dir))
			p := start(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", dir+"/out", "-Z", "nobody")...)
			status, stderr := p.wait()
			for _, words := range test.words {
				oneLine(t, status, stderr, strings.ReplaceAll(words, "DIR", dir))
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 || contents(t, path) != "#!/bin/sh\n" {
				t.Errorf("it has left %v", left)
			}
		})
	}
}

// The file of --json stays unchanged until the capture has begun, and then has one object.
func TestJSONBegins(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := filepath.Join(t.TempDir(), "counts")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, pair.Rx, nil, "-i", pair.RxName, "-w", fifo, "--json="+file)
	testnet.WaitFor(t, "the capture to open its files", func() bool {
		stack, _ := filepath.Glob("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/fd/*")
		return slices.ContainsFunc(stack, func(fd string) bool { at, _ := os.Readlink(fd); return at == file })
	})
	if got := contents(t, file); got != "before" {
		t.Errorf("%q while it waits for the reader of the fifo", got)
	}
	reader, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	p.listening()
	if got := contents(t, file); got != "" {
		t.Errorf("%q while it captures", got)
	}
	p.interrupt()
	if all := summaries(t, contents(t, file)); len(all) != 1 {
		t.Errorf("%v", all)
	}
}
