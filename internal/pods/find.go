package pods

import (
	"errors"
	"fmt"
	"strings"

	"github.com/xdpcap/xdpcap/internal/message"
)

// ErrHostNetwork is the kind of error for a pod without a network namespace of its own.
var ErrHostNetwork = errors.New("it uses the network of its host")

// Find looks up the pod of this name, namespace/name, on this host. It returns only a pod whose
// network namespace exists. If no pod has the name, the error lists similar names.
func Find(name string) (Pod, error) { return find("/", name) }

// find is Find for a host whose files are below root.
func find(root, name string) (Pod, error) {
	all, unread := read(root)
	for _, p := range all {
		switch {
		case p.String() != name:
		case p.Netns == "":
			return p, ErrHostNetwork
		default:
			return p, p.check()
		}
	}
	hasNamespace := strings.Contains(name, "/")
	if all == nil && unread != nil && !hasNamespace {
		return Pod{}, fmt.Errorf("must be NAMESPACE/NAME, such as default/%s", name)
	}
	if all == nil && unread != nil {
		return Pod{}, unread
	}
	problem := "no pod of this name runs on this host"
	if !hasNamespace {
		problem = "must be NAMESPACE/NAME"
	}
	err := errors.New(problem + hint(all, name))
	if unread != nil {
		err = fmt.Errorf("%w; not all could be read: %w", err, unread)
	}
	return Pod{}, err
}

// maxHints is the maximum number of pods in a hint.
const maxHints = 5

// hint suggests the pods with a similar name or, if no name is similar, the first of all pods.
func hint(all []Pod, name string) string {
	var near []string
	for _, p := range all {
		if isNear(p, name) {
			near = append(near, p.String())
		}
	}
	switch {
	case len(all) == 0:
		return ": it has none"
	case near == nil:
		for _, p := range all {
			near = append(near, p.String())
		}
		return "; there are: " + some(near, ", ")
	}
	return ": did you mean " + some(near, " or ") + "?"
}

// some joins the first names, and adds the number of the others.
func some(names []string, by string) string {
	text := strings.Join(names[:min(len(names), maxHints)], by)
	if more := len(names) - maxHints; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// isNear reports whether a name is probably a mistyped or shortened name of the pod. The namespace
// may be another one. The name may be that of the pod's deployment, with which the pod's name
// begins, or have a mistyped letter.
func isNear(p Pod, name string) bool {
	namespace, pod, ok := strings.Cut(name, "/")
	if !ok {
		namespace, pod = "", name
	}
	isShortened := (namespace == "" || namespace == p.Namespace) && pod != "" && strings.HasPrefix(p.Name, pod)
	return pod == p.Name || isShortened || len(message.Nearest(name, []string{p.String()})) > 0
}
