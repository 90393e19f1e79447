// Package packaging tests the results of `make packages`. It has no code of its own: its module
// holds the tools that the packages need, so that the project's own module stays small.
package packaging

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// accounts are the files that adduser and systemd-sysusers leave beside the lists of users. The
// lists of passwords are among them where the package passwd is not installed.
var accounts = []string{
	"/etc/.pwd.lock", "/etc/group-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/passwd-", "/etc/shadow", "/etc/shadow-", "/etc/subgid-", "/etc/subuid-",
}

// run returns what a command prints, and ends the test if it fails.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// built is the package in dist/ whose name matches.
func built(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob("../dist/" + pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%v match %s, want one: make packages", found, pattern)
	}
	return found[0]
}

// paths lists everything below a root except dpkg's own files and accounts.
func paths(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(path, root)
		if slices.Contains([]string{"/proc", "/sys", "/dev", "/tmp", "/var/log", "/var/cache"}, path) {
			return fs.SkipDir
		}
		if !slices.Contains(accounts, path) && (!strings.HasPrefix(path, "/var/lib/dpkg/") || strings.Contains(path, "xdpcap")) {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// cleanDebian makes a Debian with the essential packages and one more.
func cleanDebian(t *testing.T, include string) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	run(t, "mmdebstrap", "--quiet", "--variant=essential", "--include="+include, "bookworm", root)
	return root
}

// checkAccount expects that a root has the user and group xdpcap, of the numbers that Debian gives
// to systems' users, and that nobody can log in as that user.
func checkAccount(t *testing.T, root string) {
	t.Helper()
	user := strings.Split(strings.TrimSpace(run(t, "sh", "-c", "grep ^xdpcap: "+root+"/etc/passwd")), ":")
	group := strings.Split(run(t, "sh", "-c", "grep ^xdpcap: "+root+"/etc/group"), ":")
	uid, err := strconv.Atoi(user[2])
	if err != nil || uid < 100 || uid > 999 || user[3] != group[2] || user[5] != "/nonexistent" || user[6] != "/usr/sbin/nologin" {
		t.Errorf("the user is %q, its group %q", user, group)
	}
	if password := run(t, "sh", "-c", "grep ^xdpcap: "+root+"/etc/shadow"); !strings.HasPrefix(password, "xdpcap:!") && !strings.HasPrefix(password, "xdpcap:*") {
		t.Errorf("a password lets somebody in: %s", password)
	}
}

// The .deb is installed into a clean Debian, captures there with one command, and leaves nothing
// but its user when it is purged.
func TestDebian(t *testing.T) {
	deb := built(t, "*_"+runtime.GOARCH+".deb")
	root := cleanDebian(t, "systemd-standalone-sysusers")
	wants := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	before := paths(t, root)

	run(t, "cp", deb, root+"/tmp/xdpcap.deb")
	run(t, "chroot", root, "dpkg", "-i", "/tmp/xdpcap.deb")
	checkAccount(t, root)
	if version := run(t, "chroot", root, "xdpcap", "--version"); !strings.Contains(version, os.Getenv("VERSION")) {
		t.Errorf("%s, want %s", version, os.Getenv("VERSION"))
	}
	// The namespaces of unshare end with the capture, and with them the veth pair and the mounts.
	said := run(t, "unshare", "--net", "--mount", "testdata/capture.sh", root)
	if !strings.Contains(said, "3 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 3 captured") {
		t.Error(said)
	}
	if lines := run(t, "tcpdump", "-nr", root+"/tmp/out.pcapng"); strings.Count(lines, "192.0.2.2.9: UDP, length 9") != 3 {
		t.Error(lines)
	}

	// Debian's Wireshark looks there.
	_, rest, _ := strings.Cut(run(t, "tshark", "-G", "folders"), "Extcap path:")
	dir, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	if list := run(t, "chroot", root, dir+"/xdpcap", "--extcap-interfaces"); !strings.Contains(list, "extcap {version=") {
		t.Errorf("%s/xdpcap --extcap-interfaces: %s", dir, list)
	}

	// The links that systemctl enable makes.
	if err := os.Symlink("/usr/lib/systemd/system/xdpcap@.service", wants+"/xdpcap@eth0.service"); err != nil {
		t.Fatal(err)
	}
	// The link that aa-complain makes, and what an administrator has added to the profile.
	for _, name := range []string{"force-complain", "local"} {
		run(t, "install", "-D", "/dev/null", root+"/etc/apparmor.d/"+name+"/usr.bin.xdpcap")
	}
	run(t, "chroot", root, "dpkg", "--purge", "xdpcap")
	checkAccount(t, root) // who may still own files
	if diff := cmp.Diff(before, paths(t, root)); diff != "" {
		t.Errorf("before the installation (-) and after the purge (+): %s", diff)
	}
	if out, err := exec.Command("chroot", root, "dpkg-query", "-s", "xdpcap").CombinedOutput(); err == nil {
		t.Errorf("dpkg still knows it: %s", out)
	}
}

// Where Debian has no systemd-sysusers, adduser makes the user, and elsewhere useradd. Installing
// once more changes nothing.
func TestUser(t *testing.T) {
	root := cleanDebian(t, "adduser")
	run(t, "cp", built(t, "*_"+runtime.GOARCH+".deb"), root+"/tmp/xdpcap.deb")
	run(t, "cp", "postinstall.sh", root+"/tmp/")
	var lists []string
	list := func() { lists = append(lists, run(t, "cat", root+"/etc/passwd", root+"/etc/group")) }
	for range 2 {
		run(t, "chroot", root, "dpkg", "-i", "/tmp/xdpcap.deb")
		checkAccount(t, root)
		list()
	}
	run(t, "chroot", root, "userdel", "xdpcap")
	for range 2 {
		run(t, "chroot", root, "sh", "/tmp/postinstall.sh", "1") // as rpm runs it
		checkAccount(t, root)
		list()
	}
	for _, at := range []int{0, 2} {
		if diff := cmp.Diff(lists[at], lists[at+1]); diff != "" {
			t.Errorf("the second installation: %s", diff)
		}
	}
}

// The profile of the .deb is one of the files that dpkg asks about where both sides have changed
// them, and AppArmor's compiler takes it. It has all capabilities that a capture may need.
func TestAppArmor(t *testing.T) {
	const path = "/etc/apparmor.d/usr.bin.xdpcap"
	root := t.TempDir()
	run(t, "dpkg-deb", "-R", built(t, "*_"+runtime.GOARCH+".deb"), root)
	if conffiles, err := os.ReadFile(root + "/DEBIAN/conffiles"); err != nil || string(conffiles) != path+"\n" {
		t.Errorf("conffiles: %q, %v", conffiles, err)
	}
	profile, err := os.ReadFile(root + path)
	if err != nil {
		t.Fatal(err)
	}
	// --stdout compiles all of it, and leaves the kernel alone, which may have no AppArmor.
	if compiled := run(t, "apparmor_parser", "--stdout", "--skip-cache", root+path); !strings.Contains(compiled, "xdpcap") {
		t.Errorf("AppArmor's compiler: %d bytes without the name of the profile", len(compiled))
	}
	page, err := os.ReadFile("../docs/privileges.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`CAP_([A-Z_]+)`).FindAllStringSubmatch(string(page), -1) {
		if rule := "\n  capability " + strings.ToLower(m[1]) + ",\n"; !strings.Contains(string(profile), rule) {
			t.Errorf("docs/privileges.md has %s, and the profile no%s", m[0], rule)
		}
	}
	page, err = os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	directories := regexp.MustCompile("(?m)^\\| .* \\| `(/.*)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(directories) == 0 {
		t.Error("docs/kubernetes.md has no directories of container runtimes")
	}
	for _, m := range directories {
		rule := "\n  " + m[1] + "/{,*"
		if !strings.Contains(strings.ReplaceAll(string(profile), "@{run}", "/run"), rule) {
			t.Errorf("docs/kubernetes.md has %s, and the profile no%s", m[1], rule)
		}
	}
	if rule := regexp.MustCompile(`(?m)^ +/\*\*.*json.*w`).FindString(string(profile)); rule != "" {
		t.Errorf("settings of other programs may be written: %s", rule)
	}
	// What the commands of the pages open as well. A lock on a directory takes w and k.
	for _, rule := range []string{"/dev/ptp[0-9]* r", "/etc/networks r", "@{sys}/fs/bpf/{,**} rwk", "@{run}/xdpcap/ rwk", "/var/lib/xdpcap/ rwk",
		"/{tmp,var/tmp,mnt,media,srv,data}/ rwk", "@{HOME}/[^.]** r"} {
		if !strings.Contains(string(profile), "\n  "+rule+",\n") {
			t.Errorf("the profile has no rule %s", rule)
		}
	}
	// Rules that deny would hold in complain mode as well, and a capture would fail by them.
	if regexp.MustCompile(`(?m)^\s*(audit )?deny`).Match(profile) || !strings.Contains(string(profile), "\nprofile xdpcap /usr/bin/xdpcap flags=(attach_disconnected,complain,mediate_deleted) {\n") {
		t.Error("the profile is not one that only complains")
	}
}

// The .rpm has the same files as the .deb, except where the distributions differ, and rpm installs
// and removes it. AppArmor's profile is Debian's alone.
func TestRPM(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	rpm := built(t, "*."+arch+".rpm")
	same := strings.NewReplacer("/usr/lib64/", "/usr/lib/"+arch+"-linux-gnu/", "zsh/site-functions", "zsh/vendor-completions")
	files := strings.Fields(same.Replace(run(t, "rpm", "-qlp", rpm)))
	deb := run(t, "dpkg-deb", "--fsys-tarfile", built(t, "*_"+runtime.GOARCH+".deb"))
	tar := exec.Command("tar", "-t")
	tar.Stdin = strings.NewReader(deb)
	list, err := tar.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string // files alone: each format has rules of its own for directories
	for name := range strings.Lines(string(list)) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, "/") && !strings.Contains(name, "/apparmor.d/") {
			want = append(want, strings.TrimPrefix(name, "."))
		}
	}
	for _, name := range files {
		if slices.Contains(want, name) || filepath.Ext(name) != "" {
			got = append(got, name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the files of the .deb (-) and of the .rpm (+): %s", diff)
	}

	root := t.TempDir()
	in := func(args ...string) string {
		return run(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--noscripts"}, args...)...)
	}
	run(t, "cp", rpm, root+"/xdpcap.rpm")
	in("--force-debian", "-i", root+"/xdpcap.rpm")
	if version := run(t, root+"/usr/bin/xdpcap", "--version"); !strings.Contains(version, os.Getenv("VERSION")) {
		t.Errorf("%s, want %s", version, os.Getenv("VERSION"))
	}
	in("--force-debian", "-e", "xdpcap")
	for _, path := range paths(t, root) {
		if strings.Contains(path, "xdpcap") && path != "/xdpcap.rpm" {
			t.Errorf("rpm -e has left %s", path)
		}
	}
}

// Packages and images built from the same sources in another directory have the same bytes.
func TestReproducible(t *testing.T) {
	other := t.TempDir()
	copying := exec.Command("sh", "-c", "git ls-files -z -co --exclude-standard | xargs -0 cp --parents -t "+other)
	copying.Dir = ".."
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	run(t, "make", "-C", other, "packages", "image", "VERSION="+os.Getenv("VERSION"))
	first, second := sums(t, "../dist"), sums(t, other+"/dist")
	if len(first) != 5 {
		t.Errorf("%d files, want 4 packages and an image", len(first))
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

// sums are the SHA-256 of the files in a directory.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][32]byte)
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = sha256.Sum256(content)
	}
	return all
}

// The bill of materials in a package lists the modules that are linked into its binary.
func TestBillOfMaterials(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		run(t, "dpkg-deb", "-x", built(t, "*_"+arch+".deb"), root)
		text, err := os.ReadFile(root + "/usr/share/doc/xdpcap/sbom.cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			BOMFormat  string
			Components []struct{ Name, Version string }
		}
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&bom); err != nil || bom.BOMFormat != "CycloneDX" {
			t.Fatal(bom.BOMFormat, err)
		}
		info, err := buildinfo.ReadFile(root + "/usr/bin/xdpcap")
		if err != nil {
			t.Fatal(err)
		}
		want, got := []string{"std " + info.GoVersion}, []string{}
		for _, m := range info.Deps {
			want = append(want, m.Path+" "+m.Version)
		}
		for _, c := range bom.Components {
			got = append(got, c.Name+" "+c.Version)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 10 {
			t.Errorf("%s: %s", arch, diff)
		}
	}
}

// Shells complete with the files of the package, even after a comma.
func TestCompletions(t *testing.T) {
	root := t.TempDir()
	run(t, "dpkg-deb", "-x", built(t, "*_"+runtime.GOARCH+".deb"), root)
	t.Setenv("PATH", root+"/usr/bin:"+os.Getenv("PATH"))
	share := root + "/usr/share/"
	// Outside of a completion, compopt complains on stderr.
	bash := `source /usr/share/bash-completion/bash_completion; source ` + share + `bash-completion/completions/xdpcap
		COMP_LINE="xdpcap --verdict drop,ab" COMP_POINT=24 COMP_WORDS=(xdpcap --verdict drop,ab) COMP_CWORD=2
		__start_xdpcap 2>/dev/null; echo "${COMPREPLY[@]}"`
	for name, got := range map[string]string{
		"bash": run(t, "bash", "-c", bash),
		"fish": run(t, "fish", "-c", "source "+share+"fish/vendor_completions.d/xdpcap.fish; complete -C 'xdpcap --verdict drop,ab' | head -n 1"),
	} {
		if strings.TrimSpace(got) != "drop,aborted" {
			t.Errorf("%s completes drop,ab to %q", name, got)
		}
	}
	run(t, "zsh", "-n", share+"zsh/vendor-completions/_xdpcap")
}
