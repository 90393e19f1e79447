package surroundings_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// releaseMakefile has the targets that a release makes. They only print that they ran. The target
// in FAIL fails; the other variables name the target that changes a file, that commits, and that
// removes the key.
const releaseMakefile = `
lint test test-race test-surroundings apidiff test-kernels image:
	@echo $@ >> ran
	@[ "$(FAIL)" != $@ ]
	@[ "$(CHANGE)" != $@ ] || echo >> CHANGELOG.md
	@[ "$(MOVE)" != $@ ] || git commit -q --allow-empty -m later
	@[ "$(FORGET)" != $@ ] || rm $(KEY)
test-packages:
	@echo $@ >> ran
	@mkdir -p dist bin/package/amd64 bin/package/arm64
	@echo package > dist/xdpcap_0.2.0_amd64.deb
	@echo bill | tee bin/package/amd64/sbom.json > bin/package/arm64/sbom.json
	@[ "$(FAIL)" != $@ ]
`

// A releaseTree is a repository with HEAD tagged as v0.2.0, and a key outside that may sign.
type releaseTree struct {
	t         *testing.T
	dir, keys string
}

func newReleaseTree(t *testing.T) *releaseTree {
	t.Helper()
	r := &releaseTree{t: t, dir: t.TempDir(), keys: t.TempDir()}
	for _, name := range []string{"key", "other"} {
		r.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(r.keys, name))
	}
	r.write("Makefile", releaseMakefile)
	r.write("CHANGELOG.md", "# Changes\n\n## 0.2.0 (2026-11-24)\n\n- All.\n\n## 0.1.0 (2026-11-22)\n")
	r.write(".gitignore", "/bin/\n/dist/\n/ran\n")
	r.write("packaging/release-signers", "# comment\nxdpcap namespaces=\"file\" "+systest.Contents(t, filepath.Join(r.keys, "key.pub")))
	r.write("packaging/release.sh", testfile.Read(t, "packaging/release.sh"))
	r.must("git", "init", "-q")
	r.must("git", "add", ".")
	r.must("git", "commit", "-q", "-m", "All")
	r.must("git", "tag", "v0.2.0")
	return r
}

func (r *releaseTree) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a command in the tree, with variables besides the environment.
func (r *releaseTree) run(variables []string, name string, args ...string) (said string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.example",
		"MAKEFLAGS=", "RELEASE_KEY=", "SSH_AUTH_SOCK=")
	cmd.Env = append(cmd.Env, variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *releaseTree) must(name string, args ...string) {
	r.t.Helper()
	if out, err := r.run(nil, name, args...); err != nil {
		r.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// files lists what is in dist/.
func (r *releaseTree) files() (all []string) {
	for _, pattern := range []string{"dist/*", "dist/*/*"} {
		found, err := filepath.Glob(filepath.Join(r.dir, pattern))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, r.dir+"/dist/"))
		}
	}
	slices.Sort(all)
	return all
}

// A release stops at the first step that fails, and leaves no files that look like a release.
func TestReleaseStops(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "ssh-keygen")
	unsigned := []string{"unsigned-0.2.0", "unsigned-0.2.0/SHA256SUMS", "unsigned-0.2.0/xdpcap-0.2.0-amd64.cdx.json",
		"unsigned-0.2.0/xdpcap-0.2.0-arm64.cdx.json", "unsigned-0.2.0/xdpcap_0.2.0_amd64.deb"}
	all := "apidiff lint test test-race test-surroundings test-kernels test-packages image"
	for _, test := range []struct {
		name   string
		change func(*releaseTree)
		env    string   // a variable
		key    string   // of the two, or a path
		want   string   // part of its message
		ran    string   // the targets that ran
		stays  []string // files that stay
	}{
		{name: "a changed file", change: func(r *releaseTree) { r.write("Makefile", "") }, want: "not committed"},
		{name: "a new file", change: func(r *releaseTree) { r.write("new", "") }, want: "not committed"},
		{name: "no tag", change: func(r *releaseTree) { r.must("git", "tag", "-d", "v0.2.0") }, want: "HEAD has no tag"},
		{name: "a commit after the tag", change: func(r *releaseTree) { r.must("git", "commit", "-q", "--allow-empty", "-m", "More") }, want: "HEAD has no tag"},
		{name: "the tag of another version", change: func(r *releaseTree) { r.must("git", "tag", "-d", "v0.2.0"); r.must("git", "tag", "v0.2.1") },
			want: `the tag is v0.2.1, so the first heading of CHANGELOG.md must be "## 0.2.1 (DATE)": it is "## 0.2.0 (2026-11-24)"`},
		{name: "changes that have no version", change: func(r *releaseTree) {
			r.write("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n- More.\n\n## 0.2.0 (2026-11-24)\n")
			r.must("git", "commit", "-qam", "More")
			r.must("git", "tag", "-f", "v0.2.0")
		}, want: `it is "## Unreleased"`},
		{name: "no such key", key: "none", want: "none: there is no such file"},
		{name: "a key in the repository", change: func(r *releaseTree) { r.write("bin/key", systest.Contents(t, r.keys+"/key")) }, key: "bin/key", want: "must not be in the repository"},
		{name: "a key that nobody trusts", key: "other", want: "packaging/release-signers does not have it"},
		{name: "apidiff fails", env: "FAIL=apidiff", key: "key", want: "apidiff] Error", ran: "apidiff"},
		{name: "lint fails", env: "FAIL=lint", key: "key", want: "lint] Error", ran: "apidiff lint"},
		{name: "a test fails", env: "FAIL=test", key: "key", want: "test] Error", ran: "apidiff lint test"},
		{name: "a test on another kernel fails", env: "FAIL=test-kernels", key: "key", want: "test-kernels] Error", ran: "apidiff lint test test-race test-surroundings test-kernels"},
		{name: "a package's test fails", env: "FAIL=test-packages", key: "key", want: "test-packages] Error", ran: "apidiff lint test test-race test-surroundings test-kernels test-packages"},
		{name: "an image fails", env: "FAIL=image", key: "key", want: "image] Error", ran: all},
		{name: "a test changes the tree", env: "CHANGE=test", key: "key", want: "not committed", ran: all},
		{name: "a commit during the tests", env: "MOVE=test", key: "key", want: "HEAD is no longer v0.2.0", ran: all},
		{name: "no key", want: "RELEASE_KEY is not set: dist/unsigned-0.2.0 is complete but not signed", ran: all, stays: unsigned},
		{name: "the key goes while the tests run", env: "FORGET=image", key: "key", want: "dist/unsigned-0.2.0 is complete but not signed", ran: all, stays: unsigned},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newReleaseTree(t)
			if test.change != nil {
				test.change(r)
			}
			r.must("mkdir", "-p", "dist")
			if test.ran != "" {
				r.write("dist/xdpcap_0.1.0_amd64.deb", "old") // of an earlier run
			}
			key := test.key
			if key == "key" || key == "other" {
				key = filepath.Join(r.keys, key)
			}
			said, err := r.run([]string{test.env, "KEY=" + r.keys + "/key", "RELEASE_KEY=" + key}, "packaging/release.sh")
			if err == nil || !strings.Contains(said, test.want) {
				t.Errorf("%v, want it to stop with %q:\n%s", err, test.want, said)
			}
			ran, _ := os.ReadFile(filepath.Join(r.dir, "ran"))
			if diff := cmp.Diff(strings.Fields(test.ran), strings.Fields(string(ran))); diff != "" {
				t.Errorf("the targets: %s", diff)
			}
			if diff := cmp.Diff(test.stays, r.files()); diff != "" {
				t.Errorf("in dist: %s", diff)
			}
		})
	}
}

// A release is signed, and a user who verifies it by docs/install.md detects a changed file.
func TestReleaseIsSigned(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "ssh-keygen")
	r := newReleaseTree(t)
	const old = "bin/_linux/newest/root/of an earlier release"
	r.write(old, "")
	if said, err := r.run([]string{"RELEASE_KEY=" + r.keys + "/key"}, "packaging/release.sh"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(r.dir, old)); err == nil {
		t.Error("the kernels of an earlier release are taken for the newest")
	}
	want := []string{"0.2.0", "0.2.0/SHA256SUMS", "0.2.0/SHA256SUMS.sig", "0.2.0/xdpcap-0.2.0-amd64.cdx.json",
		"0.2.0/xdpcap-0.2.0-arm64.cdx.json", "0.2.0/xdpcap_0.2.0_amd64.deb"}
	if diff := cmp.Diff(want, r.files()); diff != "" {
		t.Error(diff)
	}
	_, section, _ := strings.Cut(testfile.Read(t, "docs/install.md"), "\n## Verify a release\n")
	var commands []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "    ") && len(commands) < 2 {
			commands = append(commands, strings.ReplaceAll(line, "/usr/share/doc/xdpcap/release-signers", "../../packaging/release-signers"))
		}
	}
	verify := func() error {
		said, err := r.run(nil, "sh", "-ec", "cd dist/0.2.0\n"+strings.Join(commands, ""))
		t.Log(said)
		return err
	}
	if err := verify(); err != nil {
		t.Errorf("%q: %v", commands, err)
	}
	r.write("dist/0.2.0/xdpcap_0.2.0_amd64.deb", "another package\n")
	if verify() == nil {
		t.Error("another package is taken for the signed one")
	}
	r.must("sh", "-c", "cd dist/0.2.0 && sha256sum *.deb *.json > SHA256SUMS")
	if verify() == nil {
		t.Error("other checksums are taken for the signed ones")
	}
}
