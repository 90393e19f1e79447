package privilege

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// MayWrite agrees with the kernel's decision in the sandbox, and changes no state. Root without
// capabilities is a user like others. Serial: it compares the identities of all threads of the
// process.
func TestMayWrite(t *testing.T) {
	testnet.RequireRoot(t)
	somebody := &User{Name: "somebody", UID: 1234, GID: 1235, Groups: []int{1236}}
	parent, err := os.MkdirTemp("", "privilege")
	must(t, err)
	defer os.RemoveAll(parent)
	must(t, os.Chmod(parent, 0o755))
	defer holdThreads()()
	before, err := threads()
	must(t, err)
	for _, test := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
		user     bool
		root     bool
	}{
		{"own", 1234, 0, 0o700, true, false},
		{"own, for reading", 1234, 0, 0o500, false, false},
		{"of the group", 0, 1235, 0o770, true, true},
		{"of a supplementary group", 0, 1236, 0o770, true, true},
		{"of another group", 5, 1237, 0o770, false, false},
		{"of root's group", 1234, 0, 0o770, true, true},
		{"everybody's", 5, 5, 0o777, true, true},
		{"root's", 0, 0, 0o755, false, true},
	} {
		dir := parent + "/" + test.name
		must(t, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, test.mode), os.Chown(dir, test.uid, test.gid)))
		for _, who := range []struct {
			box  Sandbox
			want bool
		}{{Sandbox{User: somebody}, test.user}, {Sandbox{}, test.root}} {
			if got := who.box.MayWrite(dir); got != who.want {
				t.Errorf("%s, %+v: %v, want %v", test.name, who.box, got, who.want)
			}
			// The answer agrees with a real attempt.
			made := who.box.As(func() error { return os.WriteFile(dir+"/file", nil, 0o600) }) == nil
			if made != who.want {
				t.Errorf("%s, %+v: a file was made: %v, want %v", test.name, who.box, made, who.want)
			}
			os.Remove(dir + "/file")
		}
	}
	if (&Sandbox{User: somebody}).MayWrite(parent + "/missing") {
		t.Error("a directory that does not exist")
	}
	after, err := threads()
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a thread has changed: %s", diff)
	}
}

// In As a file is made and a link followed as the user, and the thread is as before then, also
// where the call fails.
func TestAs(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	dir := place(t, 1234)
	secret, link := dir+"/secret", dir+"/inside/link"
	must(t, os.Symlink(secret, link))
	box := Sandbox{User: &User{Name: "somebody", UID: 1234, GID: 1235, Groups: []int{1236}}}
	var during []string
	var made unix.Stat_t
	if err := box.As(func() (err error) {
		if during, err = threadIdentity("/proc/thread-self/status"); err != nil {
			return err
		}
		if err := os.WriteFile(link, nil, 0); !errors.Is(err, os.ErrPermission) {
			t.Errorf("the link was followed with root's rights: %v", err)
		}
		file := filepath.Join(dir, "inside", "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		return unix.Stat(file, &made)
	}); err != nil {
		t.Fatal(err)
	}
	if made.Uid != 1234 || made.Gid != 1235 {
		t.Errorf("the file belongs to %d:%d", made.Uid, made.Gid)
	}
	for _, want := range []string{"Uid: 0 0 0 1234", "Gid: 0 0 0 1235", "Groups: 1236", "CapEff: 0000000000000000"} {
		if !slices.Contains(during, want) {
			t.Errorf("%q is not among %q", want, during)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadIdentity("/proc/thread-self/status")
	must(t, err)
	failure := errors.New("failure")
	restore, err := box.assume()
	must(t, err)
	must(t, restore())
	after, err := threadIdentity("/proc/thread-self/status")
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("%v: the thread has changed: %s", err, diff)
	}
	if err := box.As(func() error { return failure }); err != failure {
		t.Errorf("the error is %v", err)
	}
}
