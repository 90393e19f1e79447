package tc

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the kernel has no modules for clsact, it says ENOENT, and the error what to do.
func TestExplainRefusal(t *testing.T) {
	t.Parallel()
	err := explainRefusal("make the qdisc clsact", unix.ENOENT)
	if !errors.Is(err, ErrNoKind) || !errors.Is(err, unix.ENOENT) || !strings.HasSuffix(err.Error(), ": modprobe -a sch_ingress cls_bpf") {
		t.Errorf("%v", err)
	}
	if err := explainRefusal("make the qdisc clsact", unix.EPERM); errors.Is(err, ErrNoKind) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("%v", err)
	}
}
