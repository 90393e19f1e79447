package frame

import (
	"errors"
	"fmt"
	"testing"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What a command asks for is answered where tracing is refused, and nowhere else. Other kernels
// come last, and only where the kernel refuses.
func TestUntraced(t *testing.T) {
	t.Parallel()
	refused := func(kind error, remedy string) error {
		return fmt.Errorf("trace lb: %w", &xdp.TracingError{Reason: "refused", Remedy: remedy, Program: xdp.Program{ID: 7, Name: "lb"}, Kind: kind})
	}
	for _, test := range []struct {
		name    string
		err     error
		instead string
		want    string
	}{
		{"by the kernel", refused(support.ErrKernelRefuses, ""), "replay --program PROGRAM, drops -i IF",
			"trace lb: refused; replay --program lb, drops -i eth0; or use a kernel that permits them, as those of Debian 12 and 13, Ubuntu 24.04 and Fedora do"},
		{"by a container", refused(support.ErrTracingRefused, "run it outside"), "drops -i IF", "trace lb: refused: run it outside; drops -i eth0"},
		{"to count", message.Errorf(meter.ErrNotCountable, "eth0: %w", refused(support.ErrTracingRefused, "")), "drops -i IF", "eth0: trace lb: refused; drops -i eth0"},
		{"no question", refused(support.ErrKernelRefuses, ""), "",
			"trace lb: refused; without them work --at tc, -Q out, --drops, --hook, and xdpcap drops, replay --program and latency --kernel-stats; or use a kernel that permits them, as those of Debian 12 and 13, Ubuntu 24.04 and Fedora do"},
		{"another capture's", refused(support.ErrAnotherCapture, "stop it"), "drops -i IF",
			"trace lb: refused: stop it; or start it with --serve :19000, and read its packets with xdpcap read tcp://127.0.0.1:19000; or capture with --at tc"},
		{"another error", errors.New("it broke"), "drops -i IF", "it broke"},
	} {
		err := Untraced(test.err, "eth0", test.instead)
		if got := WithRemedy(err.Error(), err); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
		if !errors.Is(err, test.err) {
			t.Errorf("%s: the error is lost", test.name)
		}
	}
}
