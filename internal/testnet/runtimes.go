package testnet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A Pod is a pod as a runtime describes it, in the directories, files and annotations of containerd
// 1.6 to 2.1 and of CRI-O, except for parts that no reader needs.
type Pod struct {
	Namespace, Name string
	ID              string   // of its sandbox; "" = an id computed from the name
	Netns           string   // path of its network namespace; "" = it uses its host's
	Containers      []string // their names
}

// String is the pod's name: namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// id returns the id of a container, or of the sandbox for "".
func (p *Pod) id(of string) string {
	if of == "" && p.ID != "" {
		return p.ID
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(p.String()+" "+of)))
}

// Containerd writes a pod as containerd does, with the state directory state below root.
func Containerd(t testing.TB, root, state string, p Pod) {
	t.Helper()
	sandbox := p.id("")
	annotations := map[string]string{
		"io.kubernetes.cri.sandbox-id":        sandbox,
		"io.kubernetes.cri.sandbox-name":      p.Name,
		"io.kubernetes.cri.sandbox-namespace": p.Namespace,
		"io.kubernetes.cri.sandbox-uid":       "0b4c2d2e-5a67-4ad3-9b43-7f2b2cf44d8d",
	}
	write := func(id string, more map[string]string, netns string) {
		dir := filepath.Join(root, state, "io.containerd.runtime.v2.task/k8s.io", id)
		writeConfig(t, filepath.Join(dir, "config.json"), annotations, more, netns)
		for name, text := range map[string]string{
			"address": "unix:///run/containerd/s/3a", "init.pid": "4242", "runtime": "io.containerd.runc.v2", "log.json": "", "options.json": "{}",
		} {
			writeFile(t, filepath.Join(dir, name), text)
		}
		Must(t, os.MkdirAll(filepath.Join(dir, "rootfs"), 0o711))
		Must(t, os.Symlink("/var/lib/containerd/io.containerd.runtime.v2.task/k8s.io/"+id, filepath.Join(dir, "work")))
	}
	write(sandbox, map[string]string{
		"io.kubernetes.cri.container-type":        "sandbox",
		"io.kubernetes.cri.sandbox-log-directory": "/var/log/pods/" + p.Namespace + "_" + p.Name,
	}, p.Netns)
	for _, c := range p.Containers {
		netns := p.Netns
		if netns != "" {
			netns = "/proc/4242/ns/net"
		}
		write(p.id(c), map[string]string{
			"io.kubernetes.cri.container-type": "container",
			"io.kubernetes.cri.container-name": c,
			"io.kubernetes.cri.image-name":     "localhost/" + c + ":1",
		}, netns)
	}
}

// CRIO writes a pod as CRI-O does, below root.
func CRIO(t testing.TB, root string, p Pod) {
	t.Helper()
	sandbox := p.id("")
	annotations := map[string]string{
		"io.container.manager":                 "cri-o",
		"io.kubernetes.cri-o.SandboxID":        sandbox,
		"io.kubernetes.cri-o.SandboxName":      fmt.Sprintf("k8s_%s_%s_0b4c2d2e_0", p.Name, p.Namespace),
		"io.kubernetes.cri-o.Namespace":        p.Namespace,
		"io.kubernetes.cri-o.Labels":           fmt.Sprintf(`{"io.kubernetes.pod.name":%q,"io.kubernetes.pod.namespace":%q}`, p.Name, p.Namespace),
		"io.kubernetes.cri-o.RuntimeHandler":   "",
		"io.kubernetes.cri-o.NamespaceOptions": `{"pid":1}`,
	}
	write := func(id string, more map[string]string) {
		path := filepath.Join(root, "run/containers/storage/overlay-containers", id, "userdata/config.json")
		writeConfig(t, path, annotations, more, p.Netns)
	}
	write(sandbox, map[string]string{
		"io.kubernetes.cri-o.ContainerType": "sandbox",
		"io.kubernetes.cri-o.KubeName":      p.Name,
		"io.kubernetes.cri-o.HostNetwork":   fmt.Sprint(p.Netns == ""),
	})
	for _, c := range p.Containers {
		write(p.id(c), map[string]string{
			"io.kubernetes.cri-o.ContainerType": "container",
			"io.kubernetes.container.name":      c,
			"io.kubernetes.pod.name":            p.Name,
			"io.kubernetes.pod.namespace":       p.Namespace,
		})
	}
}

// writeConfig writes an OCI configuration.
func writeConfig(t testing.TB, path string, annotations, more map[string]string, netns string) {
	t.Helper()
	all := make(map[string]string)
	for _, m := range []map[string]string{annotations, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	namespaces := []map[string]string{{"type": "pid"}, {"type": "ipc"}, {"type": "mount"}}
	if netns != "" {
		namespaces = append(namespaces, map[string]string{"type": "network", "path": netns})
	}
	text, err := json.Marshal(map[string]any{
		"ociVersion":  "1.2.0",
		"process":     map[string]any{"args": []string{"/pause"}, "env": []string{"PATH=/bin"}, "cwd": "/"},
		"root":        map[string]any{"path": "rootfs", "readonly": true},
		"mounts":      []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"annotations": all,
		"linux":       map[string]any{"cgroupsPath": "kubepods.slice:cri-containerd:1", "namespaces": namespaces},
	})
	Must(t, err)
	writeFile(t, path, string(text))
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o711))
	Must(t, os.WriteFile(path, []byte(text), 0o600))
}
