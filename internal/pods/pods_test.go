package pods

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// must ends the test if there is an error.
var must = testnet.Must

// gone is the path of a network namespace that is not there.
const gone = "/nosuch/netns/cni-1"

// bothRuntimes writes pods of containerd, of k3s's containerd and of CRI-O.
func bothRuntimes(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	testnet.Containerd(t, root, "run/containerd", testnet.Pod{Namespace: "default", Name: "web-1", Netns: gone, Containers: []string{"app", "proxy"}})
	testnet.Containerd(t, root, "run/containerd", testnet.Pod{Namespace: "kube-system", Name: "kube-proxy-x", Containers: []string{"proxy"}})
	testnet.Containerd(t, root, "run/k3s/containerd", testnet.Pod{Namespace: "default", Name: "db-0", Netns: gone})
	testnet.CRIO(t, root, testnet.Pod{Namespace: "shop", Name: "web-1", Netns: gone, Containers: []string{"app"}})
	testnet.CRIO(t, root, testnet.Pod{Namespace: "shop", Name: "agent.node", Containers: []string{"app"}})
	return root
}

// The pods of all runtimes are there, each once, with their network namespaces, but no containers.
func TestRead(t *testing.T) {
	t.Parallel()
	got, err := read(bothRuntimes(t))
	want := []Pod{
		{"default", "db-0", gone},
		{"default", "web-1", gone},
		{"kube-system", "kube-proxy-x", ""},
		{"shop", "agent.node", ""},
		{"shop", "web-1", gone},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}

// Without a runtime the error lists the directories that were tried.
func TestReadNoRuntime(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	all, err := read(root)
	if !errors.Is(err, ErrNoRuntime) || all != nil {
		t.Fatalf("%v, %v", all, err)
	}
	for _, p := range places {
		if !strings.Contains(err.Error(), filepath.Join(root, p.directory)) {
			t.Errorf("%q does not name %s", err, p.directory)
		}
	}
	must(t, os.MkdirAll(filepath.Join(root, places[0].directory), 0o711))
	if all, err := read(root); all != nil || err != nil {
		t.Errorf("a runtime without pods: %v, %v", all, err)
	}
}

// Of the sandboxes of a pod that was started again, the newest counts.
func TestReadStartedAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i, id := range []string{"b", "c", "a"} {
		testnet.Containerd(t, root, "run/containerd", testnet.Pod{Namespace: "default", Name: "web", ID: id, Netns: gone + id})
		path := filepath.Join(root, places[0].directory, id, "config.json")
		made := time.Unix(1_700_000_000+int64(i%2)*60, 0)
		must(t, os.Chtimes(path, made, made))
	}
	got, err := read(root)
	if diff := cmp.Diff([]Pod{{"default", "web", gone + "c"}}, got); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}

// Damaged, huge and odd files do not hide other pods, and are reported.
func TestReadDamaged(t *testing.T) {
	t.Parallel()
	sandbox := func(annotations, linux string) string {
		return `{"annotations":{"io.kubernetes.cri.container-type":"sandbox"` + annotations + `},"linux":` + linux + `}`
	}
	root := bothRuntimes(t)
	whole, err := read(root)
	must(t, err)
	path := filepath.Join(root, places[0].directory, "0123", "config.json")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	const names = `,"io.kubernetes.cri.sandbox-namespace":"default","io.kubernetes.cri.sandbox-name":"x"`
	for name, test := range map[string]struct{ text, want string }{
		"empty":             {"", "unexpected end of JSON input"},
		"cut off":           {sandbox(names, "{}")[:60], "unexpected end of JSON input"},
		"a list":            {"[]", "cannot unmarshal array"},
		"null":              {"null", ""},
		"a number":          {`{"annotations":{"io.kubernetes.cri.container-type":1}}`, "cannot unmarshal number"},
		"no names":          {sandbox("", "{}"), "without the names that Kubernetes gives"},
		"an escape":         {sandbox(`,"io.kubernetes.cri.sandbox-namespace":"a","io.kubernetes.cri.sandbox-name":"\u001b[31m"`, "{}"), "without the names"},
		"a path for a name": {sandbox(`,"io.kubernetes.cri.sandbox-namespace":"a","io.kubernetes.cri.sandbox-name":"../x"`, "{}"), "without the names"},
		"a long name":       {sandbox(`,"io.kubernetes.cri.sandbox-namespace":"a","io.kubernetes.cri.sandbox-name":"`+strings.Repeat("a", 254)+`"`, "{}"), "without the names"},
		"a relative path":   {sandbox(names, `{"namespaces":[{"type":"network","path":"ns/net"}]}`), "does not begin at the root"},
		"deep":              {sandbox(names, strings.Repeat(`{"a":`, 20_000)), "exceeded max depth"},
		"too large":         {sandbox(names, "{}") + strings.Repeat(" ", maxConfig), "has 8388"},
		"of nobody":         {`{"annotations":{"a":"b"}}`, ""},
	} {
		must(t, os.WriteFile(path, []byte(test.text), 0o600))
		got, err := read(root)
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: the error is %v, want %q", name, err, test.want)
		}
	}
}

// A path that is not a file, or does not exist yet, is skipped, and the error has their number.
func TestReadOddFiles(t *testing.T) {
	t.Parallel()
	root := bothRuntimes(t)
	dir := filepath.Join(root, places[0].directory)
	for _, sub := range []string{"being-made", "1/config.json", "2/config.json", "3"} {
		must(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "3/config.json")))
	all, err := read(root)
	if len(all) != 5 || err == nil || !strings.Contains(err.Error(), "and 2 errors like it") {
		t.Errorf("%d pods, %v", len(all), err)
	}
}

// A user who may not read the runtime's files gets an error with that reason.
func TestReadPermission(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	root := bothRuntimes(t)
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	const nobody = 65534
	goruntime.LockOSThread() // the user is the thread's, for files alone
	defer goruntime.UnlockOSThread()
	must(t, unix.Setfsuid(nobody))
	defer unix.Setfsuid(0)
	all, err := read(root)
	if all != nil || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "list the pods of containerd: ") || !strings.Contains(err.Error(), ": only root may read it") {
		t.Errorf("%v, %v", all, err)
	}
}

// FuzzParse looks for configurations that make the parser panic, or give names that it should not.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"annotations":{"io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-name":"a","io.kubernetes.cri.sandbox-namespace":"b"},"linux":{"namespaces":[{"type":"network","path":"/x"}]}}`))
	f.Add([]byte(`{"annotations":{"io.kubernetes.cri-o.ContainerType":"sandbox","io.kubernetes.cri-o.KubeName":"a","io.kubernetes.cri-o.Namespace":"b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range []*runtime{&containerd, &crio} {
			s, isPod, err := r.parse(text)
			if isPod && (err != nil || !isName(s.Name, maxName) || !isName(s.Namespace, maxNamespace)) {
				t.Errorf("%+v, %v", s, err)
			}
		}
	})
}
