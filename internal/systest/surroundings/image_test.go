package surroundings_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The image has its files, for two architectures, as other programs read it, is reproducible byte
// for byte, and works in a container with only the rights in contrib/kubernetes.
func TestImage(t *testing.T) {
	t.Parallel()
	systest.NeedBinary(t)
	testnet.RequireRoot(t)
	for _, tool := range []string{"skopeo", "umoci", "runc", "yq"} {
		testnet.Require(t, tool)
	}
	if testing.Short() {
		t.Skip("makes an image for two architectures twice")
	}
	file := buildImage(t)
	image := unpackImage(t, file)
	for name, check := range map[string]func(*testing.T, *unpackedImage){
		"files": checkImageFiles, "job": captureInContainer, "daemonset": countInContainer,
		"recorder": recordInContainer, "refused": refuseInContainer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, image)
		})
	}
	t.Run("arm64", func(t *testing.T) {
		t.Parallel()
		checkARM64(t, file)
	})
	t.Run("the same bytes", func(t *testing.T) {
		t.Parallel()
		if first, second := systest.Contents(t, file), systest.Contents(t, buildImage(t)); first != second {
			t.Errorf("two images of the same sources differ: %d and %d bytes", len(first), len(second))
		}
	})
	debug := readDebugContainer(t)
	for _, w := range wrappedLines {
		if w.name != "tcpdump" {
			continue // is copied from this machine, not part of the image
		}
		t.Run(w.by, func(t *testing.T) {
			t.Parallel()
			w.check(t, wrappedInterface, "/captures", func(t *testing.T, ns *testnet.Namespace, stdout *os.File, name string, args ...string) (*systest.Process, string) {
				files := t.TempDir()
				c := container{image: image, name: name, args: args, rights: debug.SecurityContext, mounts: []mount{{files, "/captures", false}}}
				return c.start(t, ns, stdout), files
			})
		})
	}
}

// checkARM64 checks the image for the other architecture.
func checkARM64(t *testing.T, file string) {
	binary, err := elf.Open(unpackImage(t, file, "--override-arch", "arm64").rootfs + "/usr/bin/xdpcap")
	testnet.Must(t, err)
	defer binary.Close()
	if binary.Machine != elf.EM_AARCH64 {
		t.Errorf("the binary is for %v", binary.Machine)
	}
}

// checkImageFiles compares the files of the image with a list.
func checkImageFiles(t *testing.T, image *unpackedImage) {
	want := []string{
		"/etc/group", "/etc/passwd", "/usr/bin/tcpdump", "/usr/bin/xdpcap",
		"/usr/share/doc/xdpcap/copyright", "/usr/share/doc/xdpcap/sbom.cdx.json",
	}
	var got []string
	for _, name := range filesBelow(t, image.rootfs) {
		if info, err := os.Stat(image.rootfs + name); err != nil || !info.IsDir() {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var info [2]os.FileInfo
	for i, name := range []string{"xdpcap", "tcpdump"} {
		var err error
		if info[i], err = os.Stat(filepath.Join(image.rootfs, "usr/bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if !os.SameFile(info[0], info[1]) {
		t.Error("tcpdump is in the image a second time, and no other name of xdpcap")
	}
	if tmp, err := os.Stat(image.rootfs + "/tmp"); err != nil || tmp.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("/tmp: %v, %v", tmp, err)
	}
}

// captureInContainer runs the Job's command until SIGTERM, on a node with a pod. It has the seccomp
// filter of a runtime that allows bpf with CAP_BPF.
func captureInContainer(t *testing.T, image *unpackedImage) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	node := t.TempDir()
	const netns = "/var/run/netns/cni-of-web-1"
	pair.Tx.MountAt(t, node+netns)
	testnet.Containerd(t, node, "run/containerd", testnet.Pod{Namespace: "default", Name: "web-1", Netns: netns})
	c := readManifest(t, "job.yaml").container(t, image, node, pair.RxName)
	c.seccomp = seccompProfile(t, &c.rights, "bpf", "perf_event_open")
	p := c.start(t, pair.Rx, nil).Listening()
	var want [][]byte
	for i := range 100 { // both are fewer than fit into the receiving ring
		frame := testnet.TxToRx().TCP(testnet.Segment{SrcPort: uint16(1000 + i), DstPort: 443})
		testnet.Send(t, pair, frame, testnet.UDPFrame(64, uint64(i)))
		want = append(want, frame)
	}
	p.Cmd.Process.Signal(syscall.SIGTERM)
	status, said := p.Wait()
	if status != 0 || !strings.Contains(said, "200 seen = 100 filtered out + 0 not sampled + 0 lost + 0 invalid + 100 captured") {
		t.Fatalf("exit status %d: %s", status, said)
	}
	var got [][]byte
	file := node + "/var/lib/xdpcap/capture.pcapng"
	if !bytes.Contains(systest.ReadBytes(t, file), []byte("pod default/web-1")) {
		t.Error("the file does not say that the interface is the end of a pod's")
	}
	records, _ := systest.ReadFile(t, file)
	for _, r := range records {
		got = append(got, r.Data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	systest.CheckDetached(t, pair)
}

// countInContainer runs the DaemonSet's command, and queries it like its probe and Prometheus.
func countInContainer(t *testing.T, image *unpackedImage) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	m := readManifest(t, "daemonset.yaml")
	c := m.container(t, image, t.TempDir(), pair.RxName)
	c.seccomp = seccompProfile(t, &c.rights, "bpf", "perf_event_open")
	p := c.start(t, pair.Rx, nil).Listening()
	spec := m.Spec.Template.Spec.Containers[0]
	probed := fmt.Sprintf(":%d%s", spec.Ports[0].ContainerPort, spec.ReadinessProbe.HTTPGet.Path)
	if !strings.Contains(p.Stderr(), "metrics at http://[::]"+probed+" ") {
		t.Errorf("the probe asks for %s: %s", probed, p.Stderr())
	}
	for i := range 300 {
		testnet.Send(t, pair, testnet.UDPFrame(64, uint64(i)))
	}
	testnet.WaitFor(t, "300 packets in the metrics", func() bool { // scrapes share readings
		return regexp.MustCompile(`(?m)^xdpcap_verdict_packets_total\{.*verdict="pass"\} 300$`).MatchString(systest.Scrape(t, pair, "http://127.0.0.1"+probed))
	})
	p.Cmd.Process.Signal(syscall.SIGTERM)
	if status, said := p.Wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, said)
	}
	systest.CheckDetached(t, pair)
}

// recordInContainer runs the command of the recorder's DaemonSet, until its trigger fires and
// SIGTERM arrives.
func recordInContainer(t *testing.T, image *unpackedImage) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	node := t.TempDir()
	c := readManifest(t, "recorder.yaml").container(t, image, node, pair.RxName)
	c.seccomp = seccompProfile(t, &c.rights, "bpf", "perf_event_open")
	p := c.start(t, pair.Rx, nil).Listening()
	unreachable := testnet.TxToRx().ICMPEcho(false, 1)
	unreachable[14+20] = 3 // the type, after the headers of Ethernet and IPv4
	testnet.Send(t, pair, testnet.UDPFrame(64, 0), testnet.UDPFrame(64, 1), unreachable)
	p.Cmd.Process.Signal(syscall.SIGTERM) // ends --post, too
	status, said := p.Wait()
	records, _ := systest.ReadFile(t, node+"/var/lib/xdpcap/recorder-1.pcapng")
	if status != 0 || len(records) != 3 || !strings.Contains(said, "recorded because of: icmp[0] = 3") {
		t.Errorf("exit status %d, %d packets: %s", status, len(records), said)
	}
	systest.CheckDetached(t, pair)
}

// refuseInContainer runs the Job without a capability, and then under the profile of a runtime that
// refuses bpf. The error names the missing right and the runtime's setting for it.
func refuseInContainer(t *testing.T, image *unpackedImage) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	c := readManifest(t, "job.yaml").container(t, image, t.TempDir(), pair.RxName)
	less := *c
	less.rights.Capabilities.Add = slices.DeleteFunc(slices.Clone(c.rights.Capabilities.Add), func(name string) bool { return name == "BPF" })
	status, said := less.start(t, pair.Rx, nil).Wait()
	systest.OneLine(t, status, said, "missing privileges: CAP_BPF; ", "--cap-add", "securityContext")

	c.seccomp = seccompProfile(t, &c.rights)
	status, said = c.start(t, pair.Rx, nil).Wait()
	systest.OneLine(t, status, said, "operation not permitted", "a seccomp filter may do it",
		"allow the system call bpf in the filter", "--security-opt seccomp=", "seccompProfile")
	systest.CheckDetached(t, pair)
}
