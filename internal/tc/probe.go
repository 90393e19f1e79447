package tc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// Find returns the kind that Attach uses on this kernel. It attaches nothing. The error is an
// ErrNoKind if there is no kind. prog is a program of the type SchedCLS; Find tries it at an
// interface that does not exist.
func Find(prog *ebpf.Program) (Kind, error) {
	_, err := attachTCX(prog, math.MaxInt32, Egress)
	switch {
	case errors.Is(err, unix.ENODEV):
		return TCX, nil
	case !errors.Is(err, ebpf.ErrNotSupported):
		return 0, fmt.Errorf("try to attach a program by tcx: %w", err)
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return 0, fmt.Errorf("ask for the kernel's version: %w", err)
	}
	release := unix.ByteSliceToString(kernel.Release[:])
	for _, name := range []string{"sch_ingress", "cls_bpf"} {
		if !hasModule("/", release, name) {
			return 0, message.Errorf(ErrNoKind, "this kernel has neither tcx nor the module %s", name)
		}
	}
	return Clsact, nil
}

// hasModule reports whether a module is loaded, built in, or available. If the lists of modules
// cannot be read, it returns true.
func hasModule(root, release, name string) bool {
	if _, err := os.Stat(filepath.Join(root, "sys/module", name)); err == nil {
		return true
	}
	file := regexp.MustCompile(`(?m)/` + name + `\.ko(\.\w+)?(:|$)`)
	lists := 0 // that could be read
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		text, err := os.ReadFile(filepath.Join(root, "lib/modules", release, list))
		if err != nil {
			continue
		}
		lists++
		if file.Match(text) {
			return true
		}
	}
	return lists == 0
}

// CheckQdisc returns an error if another qdisc is in the place of clsact, which kernels without tcx
// need.
func CheckQdisc(ifindex int) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer h.Close()
	_, err = hasClsact(h, ifindex)
	return err
}
