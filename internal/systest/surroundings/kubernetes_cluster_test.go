//go:build kubernetes

package surroundings_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// kubernetesPage is the page with the commands that the tests run.
const kubernetesPage = "docs/kubernetes.md"

// kubernetesTools has the programs and scripts that create the cluster.
const kubernetesTools = "../../../internal/tools/kubernetes/"

// kubernetesPatience is the timeout of a command: a pod starts in seconds, and the Job of job.yaml
// captures for a minute.
const kubernetesPatience = 3 * time.Minute

// A cluster is Kubernetes with one node, node1, in network namespaces of its own. The node's
// interface control0 leads to the control plane, and only packets of the test arrive at its eth0.
type cluster struct {
	state   string        // the directory with all files of the cluster
	work    string        // working directory of commands, with contrib and their output
	bin     string        // the programs of Kubernetes
	eth0    *testnet.Pair // from outside to the node's eth0
	outside *testnet.Pair // Rx is where the control plane and kubectl run
	node    *exec.Cmd     // the first process of the node
}

// newCluster starts Kubernetes, and waits until its node is ready for pods.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	testnet.RequireRoot(t)
	for _, tool := range []string{"etcd", "containerd", "ctr", "runc", "skopeo", "umoci", "busybox", "unshare", "nsenter"} {
		testnet.Require(t, tool)
	}
	c := &cluster{state: t.TempDir(), work: t.TempDir(), bin: absolute(t, "../../../bin/kubernetes")}
	testnet.Must(t, os.Symlink(absolute(t, "../../../contrib"), c.work+"/contrib"))
	c.eth0 = testnet.MustPair(t, testnet.PairOptions{TxName: "node1", RxName: "eth0"})
	control := testnet.MustPair(t, testnet.PairOptions{Tx: c.eth0.Tx, Rx: c.eth0.Rx, TxName: "control1", RxName: "control0", Addresses: true})
	c.outside = &testnet.Pair{Rx: control.Tx}

	group := fmt.Sprintf("xdpcap-test-%d", os.Getpid())
	t.Cleanup(func() { removeCgroups(t, group) })
	writeKey(t, c.state+"/service-accounts.key")
	c.start(t, c.eth0.Tx, "control.sh", c.state, c.bin)
	c.node = c.start(t, c.eth0.Rx, "node.sh", c.state, group, c.bin)
	t.Cleanup(func() { // runs before the cluster ends
		if t.Failed() {
			t.Logf("%s", c.report())
		}
	})
	c.load(t, buildImage(t))
	c.load(t, c.busybox(t))
	c.shell(t, `until kubectl get --raw /readyz; do sleep 0.2; done
		kubectl wait --for=create node/node1 serviceaccount/default --timeout=2m
		kubectl wait --for=condition=Ready node/node1 --timeout=2m`)
	return c
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	testnet.Must(t, err)
	return path
}

// writeKey writes the key that signs the tokens of service accounts.
func writeKey(t *testing.T, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testnet.Must(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	testnet.Must(t, err)
	testnet.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
}

// start runs a script of kubernetesTools as the first process of its own PID and mount namespaces.
// When that process ends, or the test's own, the kernel ends all others there and removes the
// mounts.
func (c *cluster) start(t *testing.T, ns *testnet.Namespace, script string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(absolute(t, kubernetesTools+script), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(c.state, script+".log"))
	testnet.Must(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	testnet.Must(t, ns.Start(cmd))
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// removeCgroups removes the cgroups that node.sh has created, of all hierarchies, when no process
// is in them any more.
func removeCgroups(t *testing.T, name string) {
	t.Helper()
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	for _, root := range append(roots, "/sys/fs/cgroup/"+name) {
		var all []string
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, directory := range slices.Backward(all) {
			testnet.WaitFor(t, "no process to be in "+directory, func() bool {
				err := os.Remove(directory)
				return err == nil || os.IsNotExist(err)
			})
		}
	}
}

// onNode is a command in the node's namespaces and cgroups, not started.
func (c *cluster) onNode(name string, args ...string) *exec.Cmd {
	const enter = `for group in /sys/fs/cgroup/*/cgroup.procs; do echo 0 > "$group"; done; exec "$@"`
	all := []string{"--target", fmt.Sprint(c.node.Process.Pid), "--mount", "--net", "--pid", "--cgroup", "sh", "-c", enter, "sh", name}
	cmd := exec.Command("nsenter", append(all, args...)...)
	cmd.Env = os.Environ()
	return cmd
}

// load imports an image on the node, as in docs/kubernetes.md without a registry.
func (c *cluster) load(t *testing.T, file string) {
	t.Helper()
	testnet.WaitFor(t, "containerd", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", c.node.Process.Pid))
		return err == nil
	})
	words := strings.Fields(documented(t, "sudo ctr -n k8s.io images import")[0])
	out, err := c.onNode(words[1], append(words[2:6:6], file)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q of %s: %v: %s", words[1:6], file, err, out)
	}
}

// busybox makes the image busybox of this machine's program. It replaces the one of the registry,
// which the cluster cannot reach. Pods that only wait run it.
func (c *cluster) busybox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin, layout, file := dir+"/bin", dir+"/layout", dir+"/busybox.tar"
	testnet.Must(t, os.Mkdir(bin, 0o755))
	testnet.Must(t, os.WriteFile(bin+"/busybox", systest.ReadBytes(t, "/bin/busybox"), 0o755))
	for _, name := range []string{"kill", "sh", "sleep", "tar"} {
		testnet.Must(t, os.Symlink("busybox", filepath.Join(bin, name)))
	}
	systest.OutputOf(t, "umoci", "init", "--layout", layout)
	systest.OutputOf(t, "umoci", "new", "--image", layout+":busybox")
	systest.OutputOf(t, "umoci", "insert", "--image", layout+":busybox", bin, "/bin")
	systest.OutputOf(t, "umoci", "config", "--image", layout+":busybox", "--config.env", "PATH=/bin",
		"--config.entrypoint", "sleep", "--config.entrypoint", "infinity")
	systest.OutputOf(t, "skopeo", "--insecure-policy", "copy", "--quiet", "oci:"+layout+":busybox", "docker-archive:"+file+":docker.io/library/busybox:latest")
	return file
}

// command returns a command line for bash as a user of the cluster runs it, not started.
func (c *cluster) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+text)
	cmd.Dir = c.work
	kubeconfig, _ := filepath.Abs(kubernetesTools + "kubeconfig.yaml")
	path := c.bin + ":" + filepath.Dir(systest.XdpcapPath) + ":" + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG="+kubeconfig)
	cmd.WaitDelay = time.Second
	return cmd
}

// try runs such a command line, and returns its output.
func (c *cluster) try(text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), kubernetesPatience)
	defer cancel()
	var out bytes.Buffer
	cmd := c.command(ctx, text)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := c.outside.Rx.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("waited %v for the end", kubernetesPatience)
	}
	return out.String(), err
}

// shell is try for commands that must succeed.
func (c *cluster) shell(t *testing.T, text string) string {
	t.Helper()
	out, err := c.try(text)
	if err != nil {
		t.Fatalf("%v of: %s\n%s", err, text, lastLines(out, 20))
	}
	return out
}

// documented returns the commands of docs/kubernetes.md from the one that begins with these words
// to the end of its block.
func documented(t *testing.T, first string) []string {
	t.Helper()
	block := strings.ReplaceAll(testfile.Block(t, kubernetesPage, first), "\\\n", "")
	return strings.Split(strings.TrimSpace(block), "\n")
}

// report prints the state of the cluster after a failure.
func (c *cluster) report() string {
	var text strings.Builder
	pods, _ := c.try("kubectl get pods -A; kubectl get events -A | tail -n 15")
	text.WriteString(pods)
	logs, _ := filepath.Glob(c.state + "/*.log")
	containers, _ := filepath.Glob(c.state + "/log/pods/*/*/*.log")
	for _, file := range append(logs, containers...) {
		lines, _ := os.ReadFile(file)
		fmt.Fprintf(&text, "== the end of %s\n%s", strings.TrimPrefix(file, c.state+"/"), lastLines(string(lines), 8))
	}
	return text.String()
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}
