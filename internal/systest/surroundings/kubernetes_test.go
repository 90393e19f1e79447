//go:build kubernetes

package surroundings_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The image, the manifests as they are, and the commands of docs/kubernetes.md work in Kubernetes,
// with containerd and the network of its bridge plugin.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	testnet.Require(t, "tshark")
	c := newCluster(t)
	t.Run("daemonset", func(t *testing.T) { c.testDaemonSet(t) })
	c.shell(t, `for name in web web-1; do kubectl run $name --image=busybox --image-pull-policy=Never; done
		kubectl wait --for=condition=Ready pod/web pod/web-1 --timeout=2m`)
	finish := c.startJob(t) // captures for a minute, while other tests use the pods
	t.Run("pod by name", func(t *testing.T) { c.testPod(t) })
	t.Run("redirected to a pod", func(t *testing.T) { c.testRedirectedToPod(t) })
	t.Run("interface of a pod", func(t *testing.T) { c.testPodInterface(t) })
	t.Run("in a pod", func(t *testing.T) { c.testDebugPod(t) })
	t.Run("job", finish)
	t.Run("on a node", func(t *testing.T) { c.testDebugNode(t) })
	t.Run("recorder", func(t *testing.T) { c.testRecorder(t) })
	t.Run("nothing left", func(t *testing.T) { c.checkNothingAttached(t) })
}

// to returns the path of packets to an address of the node or of a pod, through eth0.
func (c *cluster) to(address string) testnet.Path {
	path := testnet.TxToRx()
	path.Src.IPv4, path.Dst.IPv4 = net.IPv4(198, 51, 100, 7).To4(), net.ParseIP(address).To4()
	return path
}

// send sends packets over UDP and returns them. They get no answer.
func (c *cluster) send(t *testing.T, address string, port uint16, n int) (frames [][]byte) {
	t.Helper()
	for i := range n {
		frames = append(frames, c.to(address).UDP(uint16(1000+i), port, []byte("xdpcap in Kubernetes")))
	}
	testnet.Send(t, c.eth0, frames...)
	return frames
}

// keepSending sends a frame a hundred times a second, until the returned function is called.
func (c *cluster) keepSending(t *testing.T, frame []byte) (stop func()) {
	t.Helper()
	sender := testnet.MustSender(t, c.eth0)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(10 * time.Millisecond); ; {
			select {
			case <-quit:
				return
			case <-tick:
			}
			if err := sender.Send(frame); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// ended waits until the pods of a DaemonSet that was deleted are gone. Kubernetes would kill them
// after 30 seconds.
func (c *cluster) ended(t *testing.T, name string) {
	t.Helper()
	begin := time.Now()
	c.shell(t, "kubectl -n xdpcap delete daemonset/"+name+`
		kubectl -n xdpcap wait --for=delete pod -l app.kubernetes.io/name=`+label(name)+" --timeout=60s")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the pod took %v to end", took)
	}
	systest.CheckDetached(t, c.eth0)
}

// label is the label of the pods of a DaemonSet.
func label(name string) string {
	if name == "xdpcap" {
		return name
	}
	return "xdpcap-" + name
}

// The DaemonSet becomes ready, counts each packet that arrives at the node's interface, serves its
// metrics where its pod's annotations point, and ends when it is deleted.
func (c *cluster) testDaemonSet(t *testing.T) {
	c.shell(t, strings.Join(documented(t, "kubectl apply -f contrib/kubernetes/namespace.yaml"), "\n"))
	const pods = "kubectl -n xdpcap get pods -l app.kubernetes.io/name=xdpcap -o jsonpath="
	address := c.shell(t, pods+`'{.items[0].status.podIP}:{.items[0].metadata.annotations.prometheus\.io/port}'`)
	c.send(t, "192.0.2.2", testnet.NumberedPort, 500)
	passed := regexp.MustCompile(`(?m)^xdpcap_verdict_packets_total\{.*interface="eth0".*verdict="pass"\} (\d+)$`)
	var metrics string
	c.waitFor(t, "500 packets in the metrics of "+address, func() bool {
		metrics = systest.Scrape(t, c.outside, "http://"+address)
		m := passed.FindStringSubmatch(metrics)
		return m != nil && m[1] == "500"
	})
	if others := regexp.MustCompile(`interface="([^"]*)"`).FindAllStringSubmatch(metrics, -1); slices.ContainsFunc(others, func(m []string) bool { return m[1] != "eth0" }) {
		t.Errorf("it counts at other interfaces, too: %s", metrics)
	}
	c.ended(t, "xdpcap")
}

// waitFor is testnet.WaitFor for conditions that run several programs.
func (c *cluster) waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(kubernetesPatience); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", kubernetesPatience, what)
		}
	}
}

// address returns the address of a pod.
func (c *cluster) address(t *testing.T, pod string) string {
	t.Helper()
	return c.shell(t, "kubectl get pod "+pod+" -o jsonpath={.status.podIP}")
}

// startJob starts the Job of job.yaml and sends packets for it. The returned test waits until it
// has ended: its log has the account, and its file the packets and the pods' names.
func (c *cluster) startJob(t *testing.T) func(*testing.T) {
	t.Helper()
	var log string
	done := make(chan error, 1)
	commands := strings.Join(documented(t, "kubectl create -f contrib/kubernetes/job.yaml"), "\n")
	go func() {
		var err error
		log, err = c.try(commands)
		done <- err
	}()
	c.shell(t, `until kubectl -n xdpcap logs job/capture 2>&1 | grep "listening on eth0"; do sleep 0.2; done`)
	to, want := c.to(c.address(t, "web-1")), [][]byte(nil)
	for i := range 50 {
		want = append(want, to.TCP(testnet.Segment{SrcPort: uint16(1000 + i), DstPort: 443, SYN: true}))
	}
	testnet.Send(t, c.eth0, want...)
	others := len(c.send(t, "192.0.2.2", testnet.NumberedPort, 20))
	return func(t *testing.T) {
		if err := <-done; err != nil {
			t.Fatalf("%v: %s", err, log)
		}
		// Other tests have sent other packets meanwhile.
		m := regexp.MustCompile(`(\d+) seen = (\d+) filtered out \+ 0 not sampled \+ 0 lost \+ 0 invalid \+ 50 captured`).FindStringSubmatch(log)
		if m == nil {
			t.Fatalf("no such account: %s", log)
		}
		if n := numbers(t, m[1:]); n[0] != n[1]+50 || n[1] < others {
			t.Errorf("it saw other packets than %d: %s", 50+others, m[0])
		}
		file := c.state + "/lib/xdpcap/capture.pcapng"
		checkFrames(t, file, want)
		names := systest.OutputOf(t, "tshark", "-r", file, "-N", "n", "-T", "fields", "-e", "ip.dst_host")
		if diff := cmp.Diff(strings.Repeat("default/web-1\n", 50), names); diff != "" {
			t.Errorf("names of addresses: %s", diff)
		}
	}
}

// checkFrames compares the packets of a file.
func checkFrames(t *testing.T, file string, want [][]byte) {
	t.Helper()
	var got [][]byte
	records, _ := systest.ReadFile(t, file)
	for _, r := range records {
		got = append(got, r.Data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

// capture runs xdpcap on the node until it has captured this many packets to the port of the pod
// web-1. It returns the packets' payload, and the names in the file and in its lines.
func (c *cluster) capture(t *testing.T, n int, args ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "out.pcapng")
	args = append(args, "-c", fmt.Sprint(n), "--json", "-w", file, "-w", file+".json", "udp port 9999")
	p := systest.StartCommand(t, c.eth0.Rx, nil, c.onNode(systest.XdpcapPath, args...)).Listening()
	for _, pod := range []string{"web", "web-1"} { // web has the first packets
		c.send(t, c.address(t, pod), 9999, n)
	}
	status, stderr := p.Wait()
	if s := systest.Account(t, stderr); status != 0 || s.Captured != uint64(n) {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	var sources []string
	for _, r := range first(systest.ReadFile(t, file)) {
		sources = append(sources, net.IP(r.Data[30:34]).String())
	}
	if want := slices.Repeat([]string{c.address(t, "web-1")}, n); !slices.Equal(sources, want) {
		t.Errorf("packets to %v, want %v", sources, want)
	}
	if !bytes.Contains(systest.ReadBytes(t, file), []byte("pod default/web-1")) {
		t.Errorf("the file does not say whose interface it is")
	}
	if named := strings.Count(systest.Contents(t, file+".json"), `"namespace":"default","pod":"web-1"`); named != n {
		t.Errorf("%d of %d lines name the pod: %s", named, n, systest.Contents(t, file+".json"))
	}
	return file
}

func first[A, B any](a A, _ B) A { return a }

// --pod captures the packets that one pod receives, and no packets of another pod: at tc ingress.
func (c *cluster) testPod(t *testing.T) {
	file := c.capture(t, 50, "--pod", "default/web-1")
	out := systest.OutputOf(t, "tshark", "-r", file, "-N", "n", "-T", "fields", "-e", "ip.dst_host", "-e", "frame.interface_name")
	if diff := cmp.Diff(strings.Repeat("default/web-1\teth0@ingress\n", 50), out); diff != "" {
		t.Error(diff)
	}
}

// --pod captures what a program at tc redirects to a pod past the interfaces of the node, as Cilium
// does with bpf_redirect_peer.
func (c *cluster) testRedirectedToPod(t *testing.T) {
	name := c.podInterfaces(t)["default/web-1"]
	outside := c.link(t, name).Index
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(30, asm.Word), // the destination in an IPv4 packet
		asm.Mov.Imm(asm.R1, int32(binary.BigEndian.Uint32(net.ParseIP(c.address(t, "web-1")).To4()))),
		asm.JNE.Reg32(asm.R0, asm.R1, "pass"),
		asm.Mov.Imm(asm.R1, int32(outside)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirectPeer.Call(), asm.Return(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"), asm.Return(), // TC_ACT_UNSPEC
	}})
	testnet.Must(t, err)
	defer prog.Close()
	testnet.Must(t, c.eth0.Rx.Do(func() error {
		from, err := xdp.EthernetInterface(c.eth0.RxName)
		if err != nil {
			return err
		}
		a, err := attach.TC(from, prog, tc.Ingress)
		if err == nil {
			t.Cleanup(func() { a.Close() })
		}
		return err
	}))
	const n = 50
	before := c.link(t, name).Statistics.TxPackets
	c.capture(t, n, "--pod", "default/web-1")
	if more := c.link(t, name).Statistics.TxPackets - before; more >= n {
		t.Errorf("%d packets were not redirected", more)
	}
}

// interfaces returns the interfaces of the node, as xdpcap lists them there.
func (c *cluster) interfaces(t *testing.T) (all []systest.InterfaceKeys) {
	t.Helper()
	out := systest.RunInside(t, c.eth0.Rx, c.onNode(systest.XdpcapPath, "interfaces", "--json"))
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}

// podInterfaces returns the node's interfaces that lead to pods, by namespace and pod.
func (c *cluster) podInterfaces(t *testing.T) map[string]string {
	t.Helper()
	of := make(map[string]string)
	for _, i := range c.interfaces(t) {
		if i.Pod != "" {
			of[i.Namespace+"/"+i.Pod] = i.Name
		}
	}
	return of
}

// link returns what the kernel tells of an interface of the node.
func (c *cluster) link(t *testing.T, name string) (attrs *netlink.LinkAttrs) {
	t.Helper()
	testnet.Must(t, c.eth0.Rx.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err == nil {
			attrs = l.Attrs()
		}
		return err
	}))
	return attrs
}

// On the node the interfaces of pods have the pods' names.
func (c *cluster) testPodInterface(t *testing.T) {
	of := c.podInterfaces(t)
	name := of["default/web-1"]
	if !strings.HasPrefix(name, "veth") || !strings.HasPrefix(of["default/web"], "veth") || len(of) != 2 {
		t.Fatalf("interfaces of pods: %v", of)
	}
	if table := systest.RunInside(t, c.eth0.Rx, c.onNode(systest.XdpcapPath, "interfaces")); !regexp.MustCompile(`(?m)^` + name + ` .* default/web-1 `).MatchString(table) {
		t.Errorf("interfaces: %s", table)
	}
	c.capture(t, 20, "-i", name, "-Q", "out")
}

// checkNothingAttached checks all interfaces of the node after the pods are gone.
func (c *cluster) checkNothingAttached(t *testing.T) {
	t.Helper()
	c.shell(t, "kubectl delete pod --all --grace-period=1 --timeout=2m")
	for _, i := range c.interfaces(t) {
		if i.Program != nil {
			t.Errorf("%s still has an XDP program: %+v", i.Name, *i.Program)
		}
		if i.Pod != "" {
			t.Errorf("%s is still the interface of pod %s/%s", i.Name, i.Namespace, i.Pod)
		}
	}
}
