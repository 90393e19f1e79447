package privilege

import (
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What a user may write is what the kernel lets that user write, and to ask changes nothing.
func TestMayWrite(t *testing.T) {
	testnet.RequireRoot(t)
	u := &User{Name: "somebody", UID: 1234, GID: 1235, Groups: []int{1235, 1236}}
	parent, err := os.MkdirTemp("", "privilege")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadIdentity("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
		want     bool
	}{
		{"own", 1234, 0, 0o700, true},
		{"own, for reading", 1234, 0, 0o500, false},
		{"of the group", 0, 1235, 0o770, true},
		{"of a supplementary group", 0, 1236, 0o770, true},
		{"of another group", 0, 1237, 0o770, false},
		{"everybody's", 0, 0, 0o777, true},
		{"root's", 0, 0, 0o755, false},
	} {
		dir := parent + "/" + test.name
		for _, err := range []error{os.Mkdir(dir, 0o700), os.Chmod(dir, test.mode), os.Chown(dir, test.uid, test.gid)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := u.MayWrite(dir); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if u.MayWrite(parent + "/missing") {
		t.Error("a directory that does not exist")
	}
	after, err := threadIdentity("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the thread has changed: %s", diff)
	}
}

func TestSudoer(t *testing.T) {
	testnet.RequireRoot(t)
	for _, test := range []struct {
		uid, gid string
		want     *User
	}{
		{"", "", nil},
		{"0", "0", nil},
		{"-1", "5", nil},
		{"many", "5", nil},
		{"4000000", "", nil},
		{"4000000", "4000001", &User{"with id 4000000", 4000000, 4000001, []int{4000001}}},
	} {
		t.Setenv("SUDO_UID", test.uid)
		t.Setenv("SUDO_GID", test.gid)
		if diff := cmp.Diff(test.want, Sudoer()); diff != "" {
			t.Errorf("SUDO_UID=%s SUDO_GID=%s: %s", test.uid, test.gid, diff)
		}
	}
}

func TestLookUp(t *testing.T) {
	if u, err := LookUp("root"); err != nil || u.UID != 0 || u.GID != 0 {
		t.Errorf("root is %v, %v", u, err)
	}
	const want = `there is no user "no such user"`
	if _, err := LookUp("no such user"); err == nil || err.Error() != want {
		t.Errorf("the error %v, want %s", err, want)
	}
}
