package surroundings_test

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A podHost is a host with a pod, default/web-1, and its container runtime's state on disk. The pod
// is the receiving side of a pair, and the host is the sending side.
type podHost struct {
	pair *testnet.Pair
	root string // of the files of the runtime
}

// keep writes a pod's state like a runtime.
type keep func(t testing.TB, root string, p testnet.Pod)

func byContainerd(state string) keep {
	return func(t testing.TB, root string, p testnet.Pod) { testnet.Containerd(t, root, state, p) }
}

// newPodHost makes a host whose runtime keeps pods in this way: web-1, and one with the host's
// network.
func newPodHost(t *testing.T, write keep) *podHost {
	t.Helper()
	h := &podHost{root: t.TempDir()}
	h.pair = h.addPod(t, write, "web-1", testnet.RxEndpoint.IPv4, testnet.PairOptions{TxName: "veth1a2b"})
	write(t, h.root, testnet.Pod{Namespace: "kube-system", Name: "kube-proxy", Containers: []string{"proxy"}})
	return h
}

// addPod makes a pod with an address at its eth0, and returns its pair with the host. The pair has
// no ARP: otherwise the pod would send ARP requests before its replies, and testnet.Send would
// count the answers to them.
func (h *podHost) addPod(t *testing.T, write keep, name string, address net.IP, opts testnet.PairOptions) *testnet.Pair {
	t.Helper()
	opts.RxName = "eth0"
	pair := testnet.MustPair(t, opts)
	systest.InRx(t, pair, func(eth0 netlink.Link) error {
		return netlink.AddrAdd(eth0, &netlink.Addr{IPNet: &net.IPNet{IP: address, Mask: net.CIDRMask(24, 32)}})
	})
	path := "/run/netns/cni-of-" + name
	pair.Rx.MountAt(t, filepath.Join(h.root, path))
	write(t, h.root, testnet.Pod{Namespace: "default", Name: name, Netns: path, Containers: []string{"app", "proxy"}})
	return pair
}

// command is xdpcap on the host.
func (h *podHost) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return systest.Surroundings{Run: filepath.Join(h.root, "run")}.Command(t, args...)
}

// run runs xdpcap on the host, and returns its output.
func (h *podHost) run(t *testing.T, args ...string) string {
	t.Helper()
	return systest.RunInside(t, h.pair.Tx, h.command(t, args...))
}

// capture captures three packets that the host sends to the pod.
func (h *podHost) capture(t *testing.T, args ...string) (systest.Summary, string) {
	t.Helper()
	args = append([]string{"--json", "-c", "3"}, append(args, "udp port 9999")...)
	p := systest.StartCommand(t, h.pair.Tx, nil, h.command(t, args...)).Listening()
	for n := range uint64(3) {
		testnet.Send(t, h.pair, testnet.UDPFrame(100, n))
	}
	status, stderr := p.Wait()
	s := systest.Account(t, stderr)
	if status != 0 || s.Captured != 3 || len(s.Interfaces) != 1 {
		t.Fatalf("exit status %d, %+v: %s", status, s, stderr)
	}
	return s, stderr
}

// named returns the name of the pod's address in a file.
var namedWeb = append([]byte{192, 0, 2, 2}, "default/web-1\x00"...)

// --pod captures the packets that a pod receives, on its interface, for every runtime's state
// directory. The summary, the notice, the lines of JSON and the file have the pod's name, and the
// file has the addresses of all pods of the host, although the pod's network namespace has no data
// about the others. With --anonymize a file names no pod.
func TestPod(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]keep{
		"containerd": byContainerd("run/containerd"), "k3s": byContainerd("run/k3s/containerd"), "CRI-O": testnet.CRIO,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPodHost(t, write)
			h.addPod(t, write, "db-0", net.IPv4(192, 0, 2, 7).To4(), testnet.PairOptions{Tx: h.pair.Tx, TxName: "veth3c4d"})
			file := systest.TempFile(t)
			s, stderr := h.capture(t, "--pod", "default/web-1", "-w", file, "-w", file+".json")
			if i := s.Interfaces[0]; i.Interface != "eth0" || i.Namespace != "default" || i.Pod != "web-1" || i.Hook != "ingress" {
				t.Errorf("%+v", i)
			}
			if !strings.Contains(stderr, "listening on eth0@ingress (pod default/web-1), tc ingress, ") {
				t.Errorf("it does not say on what it listens: %s", stderr)
			}
			data := systest.ReadBytes(t, file)
			if !bytes.Contains(data, namedWeb) || !bytes.Contains(data, append([]byte{192, 0, 2, 7}, "default/db-0\x00"...)) {
				t.Errorf("the file does not name the addresses of both pods: %q", data)
			}
			live := string(systest.ReadBytes(t, file+".json"))
			if n := strings.Count(live, `"interface":"eth0","namespace":"default","pod":"web-1","direction":"in"`); n != 3 {
				t.Errorf("%d lines name the pod: %s", n, live)
			}
			if testnet.Emulated() || name != "CRI-O" { // the other checks do not depend on kernel and runtime
				return
			}
			if diff := cmp.Diff(live, systest.MustRead(t, "--format", "json", file)); diff != "" {
				t.Errorf("the capture's lines (-) and those of read (+): %s", diff)
			}
			shown := systest.OutputOf(t, "tshark", "-r", file, "-N", "n", "-T", "fields", "-e", "ip.src_host", "-e", "ip.dst_host", "-e", "frame.interface_description")
			if diff := cmp.Diff(strings.Repeat("192.0.2.1\tdefault/web-1\tpod default/web-1\n", 3), shown); diff != "" {
				t.Errorf("Wireshark: %s", diff)
			}
			h.capture(t, "--pod", "default/web-1", "--anonymize", systest.NewKey(t), "-w", file, "-w", file+".json")
			for _, file := range []string{file, file + ".json"} {
				if data := systest.ReadBytes(t, file); bytes.Contains(data, []byte("web-1")) || len(data) == 0 {
					t.Errorf("%s names the pod: %q", file, data)
				}
			}
		})
	}
}

// An interface of the host belongs to the pod at its other end.
func TestPodOfInterface(t *testing.T) {
	t.Parallel()
	h := newPodHost(t, byContainerd("run/containerd"))
	file := systest.TempFile(t)
	s, stderr := h.capture(t, "-i", "veth1a2b", "-Q", "out", "-w", file)
	if i := s.Interfaces[0]; i.Interface != "veth1a2b" || i.Namespace != "default" || i.Pod != "web-1" || i.Hook != "egress" {
		t.Errorf("%+v", i)
	}
	if !strings.Contains(stderr, "listening on veth1a2b@egress (pod default/web-1), ") || !bytes.Contains(systest.ReadBytes(t, file), namedWeb) {
		t.Errorf("the pod is not named: %s", stderr)
	}
	var all []systest.InterfaceKeys
	if out := h.run(t, "interfaces", "--json"); json.Unmarshal([]byte(out), &all) != nil || len(all) != 2 {
		t.Fatal(out)
	}
	if all[0].Pod != "" || all[1].Name != "veth1a2b" || all[1].Namespace != "default" || all[1].Pod != "web-1" {
		t.Errorf("interfaces: %+v", all)
	}
	if table := strings.Fields(h.run(t, "interfaces")); len(table) < 9 || table[7] != "POD" || strings.Count(strings.Join(table, " "), " default/web-1 ") != 1 {
		t.Errorf("interfaces: %q", table)
	}
	if out := h.run(t, "interfaces", "--pod", "default/web-1"); !strings.Contains(out, "eth0 ") || strings.Count(out, "default/web-1") != 2 {
		t.Errorf("interfaces of the pod: %s", out)
	}
}

// The shell completes the pods that can be entered, and the interfaces within.
func TestPodCompletion(t *testing.T) {
	t.Parallel()
	h := newPodHost(t, testnet.CRIO)
	for want, args := range map[string][]string{
		"default/web-1\n:4": {"__complete", "--pod", ""},
		"lo\neth0\nany\n:4": {"__complete", "--pod", "default/web-1", "-i", ""},
	} {
		out, err := systest.RunIn(t, h.pair.Tx, h.command(t, args...))
		if strings.TrimSpace(out) != want {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
}

// A mistake in --pod is one line with the existing pods or the remedy.
func TestPodErrors(t *testing.T) {
	t.Parallel()
	h := newPodHost(t, byContainerd("run/containerd"))
	testnet.Containerd(t, h.root, "run/containerd", testnet.Pod{Namespace: "default", Name: "ended", Netns: "/run/netns/cni-2"})
	testnet.Must(t, os.WriteFile(filepath.Join(h.root, "run/netns/cni-2"), nil, 0o600))
	const none = "no pod of this name runs on this host"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--pod", "default/web"}, "--pod default/web: " + none + ": did you mean default/web-1?"},
		{[]string{"--pod", "web-1"}, "--pod web-1: must be NAMESPACE/NAME: did you mean default/web-1?"},
		{[]string{"--pod", "x/y"}, "--pod x/y: " + none + "; there are: default/ended, default/web-1, kube-system/kube-proxy"},
		{[]string{"--pod", "kube-system/kube-proxy"},
			"--pod kube-system/kube-proxy: it uses the network of its host: omit --pod, and name an interface of the host with -i"},
		{[]string{"stats", "--pod", "default/ended", "-i", "eth0"},
			"--pod default/ended: the network namespace /run/netns/cni-2 of pod default/ended cannot be used: it is not a namespace: the pod has ended, or this is a container without that path"},
		{[]string{"--pod", "default/web-1", "--netns", "x"}, "--netns and --pod: choose one: each says in which network namespace to work"},
		{[]string{"stats", "--pod", "default/web-1"}, "which interface? -i eth0, or -i any; xdpcap interfaces --pod default/web-1 lists them"},
		{[]string{"drops", "--pod", "default/web-1"},
			"--pod without -i would count for the whole machine: add -i eth0; xdpcap interfaces --pod default/web-1 lists the pod's"},
		{[]string{"monitor", "--record", "1", "--pod", "default/web-1"},
			"--pod without -i would count for the whole machine: add -i eth0; xdpcap interfaces --pod default/web-1 lists the pod's"},
		{[]string{"--pod="}, `--pod "": must not be empty; see xdpcap --help`},
		{[]string{"--pod", "default/web-1", "-r", os.DevNull}, "--pod does not work with -r: omit it; see xdpcap read --help"},
		{[]string{"--pod", "default/web-1", "-i", "veth1a2b"}, `interface "veth1a2b" does not exist; there are: lo, eth0`},
	} {
		if out := h.run(t, test.args...); out != "xdpcap: "+test.want+"\n" {
			t.Errorf("%q: %s, want %s", test.args, out, test.want)
		}
	}
	out := systest.RunInside(t, h.pair.Tx, systest.Surroundings{Run: t.TempDir()}.Command(t, "--pod", "a/b"))
	if want := "xdpcap: --pod a/b: no container runtime keeps pods here: looked for /run/containerd/io.containerd.runtime.v2.task/k8s.io, "; !strings.HasPrefix(out, want) ||
		!strings.HasSuffix(out, "; where a runtime keeps them elsewhere, --netns takes the id of one of the pod's processes\n") {
		t.Error(out)
	}
	systest.InRx(t, h.pair, netlink.LinkSetDown)
	out = h.run(t, "--pod", "default/web-1")
	if out != "xdpcap: --pod: the pod has no Ethernet interface that is up: see xdpcap interfaces with the same --pod\n" {
		t.Error(out)
	}
}
