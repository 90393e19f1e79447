//go:build kubernetes

package surroundings_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A container that kubectl debug adds captures the packets that its pod receives: as lines in its
// log, and for a reader elsewhere.
func (c *cluster) testDebugPod(t *testing.T) {
	pod := c.address(t, "web")
	commands := documented(t, "kubectl debug web -qc lines")
	c.shell(t, commands[0])
	c.untilLogged(t, "web", "lines", "listening on eth0")
	c.send(t, pod, 9998, 100) // not matched by its filter
	c.send(t, pod, 53, 100)
	log := c.shell(t, commands[1]) // follows the log until the end
	if n := strings.Count(log, " > "+pod+".53: "); n != 100 || strings.Contains(log, ".9998") {
		t.Errorf("%d lines of packets: %s", n, log)
	}

	commands = documented(t, "kubectl debug web -qc capture")
	c.checkServed(t, commands, c.to(pod).UDP(1000, testnet.NumberedPort, []byte("xdpcap in Kubernetes")), "web", "capture")
}

// kubectl debug captures on a node for a reader elsewhere.
func (c *cluster) testDebugNode(t *testing.T) {
	commands := documented(t, "kubectl debug node/node1 -q --profile=sysadmin")
	frame := c.to("192.0.2.2").TCP(testnet.Segment{SrcPort: 1000, DstPort: 443, SYN: true})
	c.shell(t, "kubectl delete pod "+c.checkServed(t, commands, frame, "", "debugger"))
}

// checkServed runs the three documented commands after which a local file has the packets that a
// debugging container captures. "" is the pod that the first command creates on the node. It
// returns the pod's name.
func (c *cluster) checkServed(t *testing.T, commands []string, frame []byte, pod, container string) string {
	t.Helper()
	c.shell(t, commands[0])
	if pod == "" {
		pod = c.nodeDebugger(t)
	}
	c.untilLogged(t, pod, container, "listening on eth0")
	c.forward(t, strings.ReplaceAll(commands[1], "node-debugger-node1-abcde", pod))
	defer c.keepSending(t, frame)()
	read, _, _ := strings.Cut(commands[2], " #")
	c.shell(t, read+" -c 30")
	const source = 26 // the bytes before the source address are changed on the way into a pod
	records, _ := systest.ReadFile(t, c.work+"/out.pcapng")
	for _, r := range records {
		isARP := r.Data[12] == 8 && r.Data[13] == 6 // the pod's own, which may come at any time
		if !isARP && !bytes.Equal(r.Data[source:], frame[source:]) {
			t.Errorf("%x was captured, %x was sent", r.Data, frame)
		}
	}
	if len(records) != 30 {
		t.Errorf("%d packets were read", len(records))
	}
	return pod
}

// nodeDebugger is the name of the pod that kubectl debug has made on the node.
func (c *cluster) nodeDebugger(t *testing.T) string {
	t.Helper()
	names := regexp.MustCompile(`node-debugger-node1-\w+`).FindAllString(c.shell(t, "kubectl get pods -o name"), -1)
	if len(names) != 1 {
		t.Fatalf("%d pods that debug the node: %q", len(names), names)
	}
	return names[0]
}

// untilLogged waits until a container has logged some words.
func (c *cluster) untilLogged(t *testing.T, pod, container, words string) {
	t.Helper()
	for deadline := time.Now().Add(testnet.Patience); ; time.Sleep(200 * time.Millisecond) {
		log, _ := c.try("kubectl logs " + pod + " -c " + container)
		if strings.Contains(log, words) {
			return
		}
		if time.Now().After(deadline) {
			states, _ := c.try("kubectl get pod " + pod + " -o jsonpath='{.status..state}'")
			t.Fatalf("waited for %q in the log of the container %s of %s: %s\n%s", words, container, pod, log, states)
		}
	}
}

// forward runs a documented kubectl port-forward until the test ends.
func (c *cluster) forward(t *testing.T, command string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "forward.log"))
	testnet.Must(t, err)
	defer log.Close()
	cmd := c.command(context.Background(), "exec "+strings.TrimSuffix(command, "&"))
	cmd.Stdout, cmd.Stderr = log, log
	testnet.Must(t, c.outside.Rx.Start(cmd))
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	c.waitFor(t, "kubectl port-forward", func() bool {
		return strings.Contains(systest.Contents(t, log.Name()), "Forwarding from 127.0.0.1:19000")
	})
}

// The recorder writes the packets before its trigger when that arrives, at SIGUSR2, and when its
// pod is deleted. The files are fetched as documented.
func (c *cluster) testRecorder(t *testing.T) {
	commands := documented(t, "kubectl apply -f contrib/kubernetes/recorder.yaml")
	c.shell(t, commands[0]+"\nkubectl -n xdpcap rollout status daemonset/recorder --timeout=2m")
	name := strings.TrimPrefix(strings.TrimSpace(c.shell(t, "kubectl -n xdpcap get pods -o name -l app.kubernetes.io/name=xdpcap-recorder")), "pod/")
	unreachable := c.to("192.0.2.2").ICMPEcho(false, 1)
	unreachable[14+20] = 3 // the type, after the headers of Ethernet and IPv4
	file := func(n string) string { return c.state + "/lib/xdpcap/recorder-" + n + ".pcapng" }
	recorded := func(n string) {
		t.Helper()
		c.waitFor(t, "recording "+n, func() bool {
			out, _ := c.try("kubectl -n xdpcap logs " + name)
			return strings.Contains(out, "recorder-"+n+".pcapng")
		})
	}

	frames := c.send(t, "192.0.2.2", testnet.NumberedPort, 20)
	testnet.Send(t, c.eth0, unreachable)
	recorded("1")
	checkFrames(t, file("1"), append(frames, unreachable))

	frames = c.send(t, "192.0.2.2", testnet.NumberedPort, 10)
	c.shell(t, fromNode(strings.ReplaceAll(commands[1], "recorder-abcde", name)))
	recorded("2")
	checkFrames(t, file("2"), frames)

	frames = c.send(t, "192.0.2.2", testnet.NumberedPort, 5)
	c.ended(t, "recorder")
	checkFrames(t, file("3"), frames)

	commands = documented(t, "kubectl debug node/node1 -q --image=busybox")
	c.shell(t, fromNode(commands[0]))
	debugger := c.nodeDebugger(t)
	c.shell(t, "kubectl wait --for=condition=Ready --timeout=2m pod/"+debugger)
	c.shell(t, strings.ReplaceAll(commands[1], "node-debugger-node1-abcde", debugger))
	for _, n := range []string{"1", "2", "3"} {
		if !slices.Equal(systest.ReadBytes(t, file(n)), systest.ReadBytes(t, c.work+"/captures/recorder-"+n+".pcapng")) {
			t.Errorf("the fetched file %s differs from the node's", n)
		}
	}
}

// fromNode returns a command with the image busybox of the node, because no registry has one here.
func fromNode(command string) string {
	return strings.Replace(command, "--image=busybox", "--image=busybox --image-pull-policy=Never", 1)
}
