package capture

import (
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/pods"
)

// podInterfaces returns the interfaces of the pod whose network namespace this process has entered:
// all that can be captured, except the loopback interface.
func podInterfaces() (names []string, err error) {
	names, err = frame.AllInterfaces()
	if err == nil && names == nil {
		err = errors.New("--pod: the pod has no Ethernet interface that is up: see xdpcap interfaces with the same --pod")
	}
	return names, err
}

// namePods adds the names of this host's pods to the options of the session. Captures work without
// them, so an error is only a notice with -v.
func (r *captureRun) namePods(o *capture.Options) {
	owners, err := r.o.Process.Pods()
	if err != nil && !errors.Is(err, pods.ErrNoRuntime) && r.o.printing.Verbose > 0 {
		r.notices.add(fmt.Errorf("names of pods are missing: %w", err))
	}
	o.PodOf = func(index int) capture.Pod {
		if p := owners.Of(index); p != nil {
			return capture.Pod{Namespace: p.Namespace, Name: p.Name}
		}
		return capture.Pod{}
	}
	for _, a := range owners.Addresses() {
		o.Names = append(o.Names, capture.Name{Address: a.Addr, Name: a.Pod.String()})
	}
}
