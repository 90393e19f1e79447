package privilege

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func TestCaller(t *testing.T) {
	testnet.RequireRoot(t)
	unknown := func(uid, gid int) *User {
		return &User{"with id " + strconv.Itoa(uid), uid, gid, []int{gid}}
	}
	somebody, err := LookUp("nobody")
	must(t, err)
	const byNumber, byGroup, byName, byPolkit = "SUDO_UID", "SUDO_GID", "DOAS_USER", "PKEXEC_UID"
	for _, test := range []struct {
		env  map[string]string
		want *User
	}{
		{nil, nil},
		{map[string]string{byNumber: "0", byGroup: "0"}, nil},
		{map[string]string{byNumber: "-1", byGroup: "5"}, nil},
		{map[string]string{byNumber: "4294967296", byGroup: "5"}, nil}, // of more than 32 bits
		{map[string]string{byNumber: "4294967295"}, nil},               // setuid takes it for "no change"
		{map[string]string{byNumber: "4000000"}, unknown(4000000, nogroup)},
		{map[string]string{byNumber: "4000000", byGroup: "4000001"}, unknown(4000000, 4000001)},
		{map[string]string{byName: "nobody"}, somebody},
		{map[string]string{byName: "root"}, nil},
		{map[string]string{byName: "no such user"}, nil},
		{map[string]string{byPolkit: "65534"}, somebody},
		{map[string]string{byPolkit: "0"}, nil},
		{map[string]string{byPolkit: "4000000"}, unknown(4000000, nogroup)},
		{map[string]string{byNumber: "0", byGroup: "5", byPolkit: "4000000"}, unknown(4000000, nogroup)}, // the group is sudo's
		{map[string]string{byNumber: "0", byGroup: "0", byName: "nobody"}, somebody},                     // sudo in a shell of doas
	} {
		for _, name := range []string{byNumber, byGroup, byName, byPolkit} {
			t.Setenv(name, test.env[name])
		}
		if diff := cmp.Diff(test.want, Caller()); diff != "" {
			t.Errorf("%v: %s", test.env, diff)
		}
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	dir := t.TempDir()
	for _, test := range []struct {
		uid, gid int
		want     *User
	}{
		{0, 0, nil},
		{0, 1235, nil},
		{4000000, 1235, &User{"with id 4000000", 4000000, 1235, []int{1235}}},
		{4000000, 0, &User{"with id 4000000", 4000000, nogroup, []int{nogroup}}},
	} {
		must(t, os.Chown(dir, test.uid, test.gid))
		if diff := cmp.Diff(test.want, Owner(dir)); diff != "" {
			t.Errorf("%d:%d: %s", test.uid, test.gid, diff)
		}
	}
	if u := Owner(dir + "/missing"); u != nil {
		t.Errorf("the owner of nothing is %v", u)
	}
}

// inNamespace is set in a process of the test whose user namespace has no user but root.
const inNamespace = "PRIVILEGE_TEST_NAMESPACE"

// withUsers is set in a process of the test that finds another /etc/passwd, to that file. Its name
// is that of the user that root becomes.
const withUsers = "PRIVILEGE_TEST_USERS"

// Root becomes xdpcap, or nobody if there is no such user, with no group of root's, and stays root
// if the namespace has no other user.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	u := Unprivileged()
	if os.Getenv(inNamespace) != "" {
		if u != nil {
			t.Errorf("it would become %+v", u)
		}
		return
	}
	if u == nil || u.UID == 0 || u.GID == 0 || !slices.Equal(u.Groups, []int{u.GID}) {
		t.Errorf("it would become %+v", u)
	}
	if users := os.Getenv(withUsers); users != "" {
		must(t, unix.Mount(users, "/etc/passwd", "", unix.MS_BIND, ""))
		for name, want := range map[string]User{"xdpcap": {"xdpcap", 4000001, 4000002, []int{4000002}}, "nobody": {"nobody", 65534, 65533, []int{65533}}} {
			if filepath.Base(users) == name {
				if diff := cmp.Diff(&want, Unprivileged()); diff != "" {
					t.Error(diff)
				}
			}
		}
		return
	}
	for name, lines := range map[string]string{
		"xdpcap": "root:x:0:0::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\nxdpcap:x:4000001:4000002::/:/bin/sh\n",
		"nobody": "root:x:0:0::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n",
	} {
		users := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(users, []byte(lines), 0o600))
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), withUsers+"="+users)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: root}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLookUp(t *testing.T) {
	t.Parallel()
	if u, err := LookUp("root"); err != nil || u.UID != 0 || u.GID != 0 {
		t.Errorf("root is %v, %v", u, err)
	}
	const want = `there is no user "no such user"`
	if _, err := LookUp("no such user"); err == nil || err.Error() != want {
		t.Errorf("the error %v, want %s", err, want)
	}
}
