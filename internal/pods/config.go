package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxConfig limits the size of a configuration. Annotations of a pod take at most 256 KiB; the rest
// is mostly the environment and the mounts.
const maxConfig = 8 << 20

// A config has the fields of a container's OCI configuration that this package uses.
type config struct {
	Annotations map[string]string `json:"annotations"`
	Linux       struct {
		Namespaces []struct {
			Type string `json:"type"`
			Path string `json:"path"`
		} `json:"namespaces"`
	} `json:"linux"`
}

// A sandbox holds the namespaces of a pod while its containers start and stop.
type sandbox struct {
	Pod
	isEnded bool      // its network namespace is gone
	made    time.Time // when its configuration was written
}

// containerd is containerd from version 1.5 on.
var containerd = runtime{
	name:      "containerd",
	kind:      "io.kubernetes.cri.container-type",
	namespace: "io.kubernetes.cri.sandbox-namespace",
	pod:       "io.kubernetes.cri.sandbox-name",
}

// crio is CRI-O. The same directory contains podman's containers, which have no such annotations.
var crio = runtime{
	name:      "CRI-O",
	kind:      "io.kubernetes.cri-o.ContainerType",
	namespace: "io.kubernetes.cri-o.Namespace",
	pod:       "io.kubernetes.cri-o.KubeName",
}

// netns returns the path of the container's network namespace; "" = it uses the host's.
func (c *config) netns() (string, error) {
	for _, n := range c.Linux.Namespaces {
		switch {
		case n.Type != "network":
		case !strings.HasPrefix(n.Path, "/"):
			return "", fmt.Errorf("the path %q of its network namespace does not begin at the root", n.Path)
		default:
			return reachable(n.Path), nil
		}
	}
	return "", nil
}

// reachable returns the path, or the same path below /run if there is no /var/run: both are the
// same directory on hosts, but a container image need not have the link.
func reachable(path string) string {
	rest, ok := strings.CutPrefix(path, "/var/run/")
	if !ok {
		return path
	}
	if _, err := os.Lstat("/var/run"); err == nil {
		return path
	}
	return "/run/" + rest
}

// read reads the configuration of a container, as parse does.
func (p *place) read(path string) (s sandbox, isPod bool, err error) {
	// With O_NONBLOCK, opening a FIFO or a device does not wait.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return s, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return s, false, err
	case !info.Mode().IsRegular():
		return s, false, fmt.Errorf("%s: is not a regular file", path)
	case info.Size() > maxConfig:
		return s, false, fmt.Errorf("%s: has %d bytes, and may have %d", path, info.Size(), maxConfig)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return s, false, fmt.Errorf("read %s: %w", path, err)
	}
	s, isPod, err = p.runtime.parse(text)
	if err != nil {
		return s, false, fmt.Errorf("%s: %w", path, err)
	}
	s.made, s.isEnded = info.ModTime(), s.Netns != "" && s.check() != nil
	return s, isPod, nil
}

// parse parses an OCI configuration. isPod is true for a pod's sandbox.
func (r *runtime) parse(text []byte) (s sandbox, isPod bool, err error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return s, false, err
	}
	if c.Annotations[r.kind] != "sandbox" {
		return s, false, nil
	}
	s.Namespace, s.Name = c.Annotations[r.namespace], c.Annotations[r.pod]
	if !isName(s.Namespace, maxNamespace) || !isName(s.Name, maxName) {
		return s, false, errors.New("a pod's sandbox without the names that Kubernetes gives")
	}
	s.Netns, err = c.netns()
	return s, err == nil, err
}

// The maximum length in bytes of the name of a namespace (a label of RFC 1123) and of a pod (a
// subdomain of RFC 1123).
const (
	maxNamespace = 63
	maxName      = 253
)

// isName reports whether a name consists of characters that Kubernetes allows: lower-case letters,
// digits, dashes and dots.
func isName(s string, longest int) bool {
	isOther := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' }
	return s != "" && len(s) <= longest && !strings.ContainsFunc(s, isOther)
}
