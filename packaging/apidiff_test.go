package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An apiTree is a repository with a module whose package says what programs may use.
type apiTree struct {
	t           *testing.T
	dir, binary string // binary is apidiff
}

func newAPITree(t *testing.T) *apiTree {
	t.Helper()
	r := &apiTree{t: t, dir: t.TempDir(), binary: filepath.Join(t.TempDir(), "apidiff")}
	run(t, "go", "build", "-o", r.binary, "golang.org/x/exp/cmd/apidiff")
	script, err := os.ReadFile("apidiff.sh")
	if err != nil {
		t.Fatal(err)
	}
	r.write("packaging/apidiff.sh", string(script))
	r.write("go.mod", "module example.com/tool\n\ngo 1.26.0\n")
	r.write("internal/part/part.go", "package part\n\nfunc Part() {}\n")
	run(t, "git", "-C", r.dir, "init", "-q")
	return r
}

func (r *apiTree) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// commit commits a package capture with these declarations, and tags it if there is a tag.
func (r *apiTree) commit(declarations, tag string) {
	r.t.Helper()
	r.write("capture/capture.go", "package capture\n\n"+declarations)
	git := []string{"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@a.example"}
	run(r.t, "git", append(git, "add", ".")...)
	run(r.t, "git", append(git, "commit", "-q", "--allow-empty", "-m", "More")...)
	if tag != "" {
		run(r.t, "git", append(git, "tag", tag)...)
	}
}

// diff expects that apidiff.sh says something, and whether it succeeds.
func (r *apiTree) diff(ok bool, since string, want ...string) {
	r.t.Helper()
	args := []string{r.binary}
	if since != "" {
		args = append(args, since)
	}
	out, err := exec.Command(filepath.Join(r.dir, "packaging/apidiff.sh"), args...).CombinedOutput()
	if (err == nil) != ok {
		r.t.Errorf("apidiff.sh: %v", err)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			r.t.Errorf("want %q:\n%s", w, out)
		}
	}
}

// The changes since the tag before are printed, and a version that must stay compatible is checked.
func TestAPIDiff(t *testing.T) {
	r := newAPITree(t)
	r.commit("func Open(name string) {}\n", "")
	r.diff(true, "", "nothing to compare with, because there is no earlier tag")
	r.commit("func Open(name string) {}\n", "v0.1.0")
	r.diff(true, "", "nothing to compare with") // the tag is HEAD's own

	const more = "func Open(name string) {}\n\nfunc Close() {}\n"
	r.commit(more, "v0.1.1")
	r.diff(true, "", "The API since v0.1.0:", "Compatible changes", "Close: added")

	const other = "func Open(name string) {}\n\nfunc Close() error { return nil }\n"
	r.commit(other, "")
	r.diff(true, "", "since v0.1.1:", "Incompatible changes", "Close: changed from func() to func() error") // no promise yet
	r.commit(other, "v0.1.2")
	r.diff(false, "", "v0.1.2 must stay compatible with v0.1.1")
	run(t, "git", "-C", r.dir, "tag", "-d", "v0.1.2")
	run(t, "git", "-C", r.dir, "tag", "v0.2.0")
	r.diff(true, "", "Close: changed")
	r.diff(true, "v0.1.0", "since v0.1.0:", "Close: added")

	r.write("internal/part/part.go", "package part\n")
	r.commit(other, "v1.0.0")
	r.diff(true, "", "since v0.2.0: unchanged") // nobody else can use what is internal
	r.commit(more, "v1.1.0")
	r.diff(false, "", "v1.1.0 must stay compatible with v1.0.0")
	r.diff(false, "v9.9.9", "v9.9.9")
}
