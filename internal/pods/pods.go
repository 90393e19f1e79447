// Package pods finds the Kubernetes pods of this host: their names, their network namespaces, their
// addresses, and their interfaces.
//
// It reads the files that the container runtime keeps while a pod runs, because that needs no right
// beyond reading files: the OCI configuration of each pod's sandbox, which containerd and CRI-O
// annotate with the pod's name. It does not use the API server, because that may be the server
// being debugged, nor the runtime's socket, because a gRPC client would be larger than the rest of
// this program.
//
// All functions may be called concurrently.
package pods

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Pod is a Kubernetes pod of this host, when it was looked up.
type Pod struct {
	Namespace, Name string

	// Netns is the path of the pod's network namespace; "" = the pod uses its host's.
	Netns string
}

// String is the pod's name as users of kubectl write it: namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// ErrNoRuntime is the kind of error for a host without a directory of a container runtime that this
// process can find.
var ErrNoRuntime = errors.New("no container runtime")

// A runtime is a container runtime of Kubernetes, and the keys of its annotations.
type runtime struct {
	name           string
	kind           string // "sandbox" for the container that holds a pod's namespaces
	namespace, pod string // the pod's namespace and name
}

// A place is a directory in which a runtime keeps a directory for each container and each pod.
type place struct {
	runtime   *runtime
	directory string
	file      string // the OCI configuration, below a container's directory
}

// places are the directories of the runtimes in distributions of Kubernetes.
var places = []place{
	{&containerd, "/run/containerd/io.containerd.runtime.v2.task/k8s.io", "config.json"},
	{&containerd, "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io", "config.json"}, // also RKE2
	{&containerd, "/run/k0s/containerd/io.containerd.runtime.v2.task/k8s.io", "config.json"},
	{&containerd, "/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/k8s.io", "config.json"},
	{&crio, "/run/containers/storage/overlay-containers", "userdata/config.json"},
}

// maxContainers is the maximum number of containers that are read of one runtime. By default a
// kubelet runs at most 110 pods.
const maxContainers = 16 << 10

// Read lists the pods of this host, by namespace and name. If some could not be read, it returns
// the others and an error. An error of the kind ErrNoRuntime lists the paths that it has tried.
func Read() ([]Pod, error) { return read("/") }

// read is Read for a host whose files are below root.
func read(root string) ([]Pod, error) {
	var all []sandbox
	var errs []error
	var looked []string
	found := false
	for _, p := range places {
		directory := filepath.Join(root, p.directory)
		looked = append(looked, directory)
		names, err := list(directory)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found = true
		if err != nil {
			errs = append(errs, fmt.Errorf("list the pods of %s: %w", p.runtime.name, explain(err)))
		}
		for _, name := range names {
			s, isPod, err := p.read(filepath.Join(directory, name, p.file))
			switch {
			case errors.Is(err, fs.ErrNotExist): // it has ended, or is being made
			case err != nil:
				errs = append(errs, fmt.Errorf("read a container of %s: %w", p.runtime.name, explain(err)))
			case isPod:
				all = append(all, s)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("%w keeps pods here: looked for %s", ErrNoRuntime, strings.Join(looked, ", "))
	}
	return distinct(all), firstOf(errs)
}

// list returns the names in a directory.
func list(directory string) ([]string, error) {
	d, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxContainers)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return names, err
}

// explain adds that only root may read the runtime's files.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: only root may read it", err)
	}
	return err
}

// firstOf returns the first error, with the number of the others.
func firstOf(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w, and %d errors like it", errs[0], len(errs)-1)
}

// distinct returns the pods of sandboxes, each once. A restarted pod has an old sandbox until the
// runtime removes it. So a sandbox whose namespace still exists comes before the others, and a
// newer one before an older one.
func distinct(all []sandbox) (pods []Pod) {
	slices.SortStableFunc(all, func(a, b sandbox) int {
		byName := cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		switch {
		case byName != 0 || a.isEnded == b.isEnded:
			return cmp.Or(byName, b.made.Compare(a.made))
		case a.isEnded:
			return 1
		}
		return -1
	})
	for _, s := range all {
		if n := len(pods); n == 0 || pods[n-1].String() != s.String() {
			pods = append(pods, s.Pod)
		}
	}
	return pods
}

// check returns an error unless the path of the pod's network namespace leads to a namespace. After
// the namespace is gone, its path may still exist as an empty file.
func (p *Pod) check() error {
	var s unix.Statfs_t
	err := unix.Statfs(p.Netns, &s)
	if err == nil && s.Type != unix.NSFS_MAGIC {
		err = errors.New("it is not a namespace")
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("the network namespace %s of pod %v cannot be used: %w: the pod has ended, or this is a container without that path", p.Netns, *p, err)
}
