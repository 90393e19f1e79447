package pods

import (
	"errors"
	"fmt"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The error for a name that no pod has suggests similar names.
func TestFindErrors(t *testing.T) {
	t.Parallel()
	root := bothRuntimes(t)
	const none = "no pod of this name runs on this host"
	for name, want := range map[string]string{
		"default/wbe-1":            none + ": did you mean default/web-1?",
		"default/web":              none + ": did you mean default/web-1?",
		"shop/agent":               none + ": did you mean shop/agent.node?",
		"default/agent.node":       none + ": did you mean shop/agent.node?",
		"defualt/web-1":            none + ": did you mean default/web-1 or shop/web-1?",
		"nothing/like-it":          none + "; there are: default/db-0, default/web-1, kube-system/kube-proxy-x, shop/agent.node, shop/web-1",
		"/":                        none + "; there are: default/db-0, default/web-1, kube-system/kube-proxy-x, shop/agent.node, shop/web-1",
		"web-1":                    "must be NAMESPACE/NAME: did you mean default/web-1 or shop/web-1?",
		"kube-system/kube-proxy-x": ErrHostNetwork.Error(),
		"shop/agent.node":          ErrHostNetwork.Error(),
		"default/web-1": "the network namespace " + gone + " of pod default/web-1 cannot be used: no such file or directory: " +
			"the pod has ended, or this is a container without that path",
	} {
		if _, err := find(root, name); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := find(root, "shop/agent.node"); !errors.Is(err, ErrHostNetwork) {
		t.Error("no pod with its host's network")
	}
	for i := range 5 {
		testnet.CRIO(t, root, testnet.Pod{Namespace: "shop", Name: fmt.Sprint("cart-", i), Netns: gone})
	}
	if _, err := find(root, "x/y"); err == nil || len(err.Error()) > 200 {
		t.Errorf("%v", err)
	}
	if _, err := find(t.TempDir(), "default/web-1"); !errors.Is(err, ErrNoRuntime) {
		t.Errorf("%v", err)
	}
}
