package surroundings_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A manifest has the fields of a DaemonSet or a Job that the tests read.
type manifest struct {
	Kind string
	Spec struct{ Template struct{ Spec podSpec } }
}

type podSpec struct {
	HostNetwork                  bool
	AutomountServiceAccountToken *bool
	Containers                   []containerSpec
	Volumes                      []struct {
		Name     string
		HostPath struct{ Path, Type string }
	}
}

type containerSpec struct {
	Image           string
	ImagePullPolicy string
	Args            []string
	Ports           []struct{ ContainerPort int }
	ReadinessProbe  struct{ HTTPGet struct{ Path string } }
	Resources       struct{ Limits struct{ CPU, Memory string } }
	SecurityContext securityContext
	VolumeMounts    []struct {
		Name, MountPath, MountPropagation string
		ReadOnly                          bool
	}
}

type securityContext struct {
	Privileged               bool
	AllowPrivilegeEscalation *bool
	ReadOnlyRootFilesystem   bool
	Capabilities             struct{ Drop, Add []string }
}

// manifestDirectory has the manifests.
const manifestDirectory = "contrib/kubernetes/"

// documentsOf returns the YAML documents of a file in manifestDirectory, as JSON.
func documentsOf(t *testing.T, name string) (documents []json.RawMessage) {
	t.Helper()
	testnet.Require(t, "yq")
	text := systest.OutputOf(t, "yq", ".", "../../../"+manifestDirectory+name)
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var document json.RawMessage
		if err := d.Decode(&document); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		documents = append(documents, document)
	}
	return documents
}

// readManifest reads the DaemonSet or the Job of a file, which has one container.
func readManifest(t *testing.T, name string) *manifest {
	t.Helper()
	for _, document := range documentsOf(t, name) {
		var m manifest
		if err := json.Unmarshal(document, &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(m.Spec.Template.Spec.Containers) == 1 {
			return &m
		}
	}
	t.Fatalf("%s has nothing with one container", name)
	return nil
}

// readDebugContainer reads the container of debug.yaml.
func readDebugContainer(t *testing.T) (c containerSpec) {
	t.Helper()
	testnet.Must(t, json.Unmarshal(documentsOf(t, "debug.yaml")[0], &c))
	return c
}

// container is the container of the manifest on a node whose files are below a directory, with this
// interface in place of eth0.
func (m *manifest) container(t *testing.T, image *unpackedImage, node, nic string) *container {
	t.Helper()
	pod := &m.Spec.Template.Spec
	spec := &pod.Containers[0]
	c := &container{image: image, args: slices.Clone(spec.Args), rights: spec.SecurityContext}
	if i := slices.Index(c.args, "eth0"); i > 0 {
		c.args[i] = nic
	}
	mebibytes, ok := strings.CutSuffix(spec.Resources.Limits.Memory, "Mi")
	n, err := strconv.ParseInt(mebibytes, 10, 64)
	if !ok || err != nil {
		t.Fatalf("the limit %q is no number of Mi", spec.Resources.Limits.Memory)
	}
	c.memory = n << 20
	for _, v := range pod.Volumes {
		source := filepath.Join(node, v.HostPath.Path)
		testnet.Must(t, os.MkdirAll(source, 0o755))
		for _, m := range spec.VolumeMounts {
			if m.Name == v.Name {
				c.mounts = append(c.mounts, mount{source, m.MountPath, m.ReadOnly})
			}
		}
	}
	return c
}

// The manifests give xdpcap only the capabilities that it needs, limit its resources, and keep
// tables out of the nodes' logs.
func TestManifests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../" + manifestDirectory + "*.yaml")
	testnet.Must(t, err)
	specs := make(map[string]containerSpec)
	for _, file := range files {
		name := filepath.Base(file)
		switch name {
		case "debug.yaml":
			specs[name] = readDebugContainer(t)
			continue
		case "namespace.yaml":
			continue
		}
		m := readManifest(t, name)
		pod := m.Spec.Template.Spec
		spec := pod.Containers[0]
		specs[name] = spec
		if spec.Resources.Limits.CPU == "" || spec.Resources.Limits.Memory == "" {
			t.Errorf("%s does not limit CPU time and memory: %+v", name, spec.Resources)
		}
		if m.Kind == "DaemonSet" && !slices.Contains(spec.Args, "-q") {
			t.Errorf("%s: without -q it fills the node's logs: %q", name, spec.Args)
		}
		if !pod.HostNetwork || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: not in the node's network, or with a service account's token", name)
		}
	}
	no := false
	var want securityContext
	want.AllowPrivilegeEscalation, want.ReadOnlyRootFilesystem = &no, true
	want.Capabilities.Drop, want.Capabilities.Add = []string{"ALL"}, []string{"BPF", "NET_ADMIN", "PERFMON"}
	for name, spec := range specs {
		if spec.ImagePullPolicy != "IfNotPresent" {
			t.Errorf("%s does not use an image that is on the node alone", name)
		}
		if diff := cmp.Diff(want, spec.SecurityContext); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(specs) < 3 {
		t.Errorf("%v has no DaemonSet, Job and profile", files)
	}
}
