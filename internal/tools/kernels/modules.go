package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are modules of interfaces that tests make, of the virtual machine's own interfaces, of
// clsact (for kernels without tcx) and of the state of sockets; and of queues, rules and protocols
// that lose packets in tests. A module that is built into the kernel needs no loading.
var wanted = []string{"veth", "bridge", "bonding", "team", "vrf", "8021q", "macvlan", "tun", "dummy", "ifb", "vmxnet3",
	"virtio_pci", "virtio_net",
	"sch_ingress", "sch_tbf", "cls_bpf", "tcp_diag",
	"sch_htb", "sch_fq", "sch_fq_codel", "sch_netem", "nf_tables", "nft_nat", "nft_reject_inet", "nft_chain_nat",
	"vxlan", "ipip", "ip_gre", "xfrm_user"}

// optional are modules that only some of the kernels have.
var optional = []string{"xsk_diag"}

// modules returns the paths of the wanted modules, each after its dependencies. depmod and
// modprobe of Debian's kmod find these; both are called by their full path, because /sbin is in
// root's PATH only.
func (k kernel) modules(ctx context.Context) (paths []string, err error) {
	// Some packages have modules below usr/lib only. The link fails if there is a lib, too.
	os.Symlink("usr/lib", filepath.Join(k.root(), "lib"))
	dirs, _ := filepath.Glob(filepath.Join(k.root(), "lib/modules/*"))
	if len(dirs) != 1 {
		return nil, fmt.Errorf("no single directory of modules in %s", k.root())
	}
	release := filepath.Base(dirs[0])
	if _, err := os.Stat(filepath.Join(dirs[0], "modules.dep")); err != nil {
		if _, err := output(ctx, "", "/sbin/depmod", "--basedir", k.root(), release); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Concat(wanted, optional) {
		list, err := output(ctx, "", "/sbin/modprobe", "--config", "/dev/null", "--dirname", k.root(),
			"--set-version", release, "--show-depends", name)
		if err != nil && !slices.Contains(optional, name) {
			return nil, err
		}
		for line := range strings.Lines(list) { // "builtin NAME", or "insmod PATH"
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "insmod "); ok && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}
