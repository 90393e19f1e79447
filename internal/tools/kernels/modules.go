package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are the modules of the interfaces that tests make, of the guest's own interfaces, and of
// egress, where kernels without tcx need them. A module that is built into the kernel needs no
// loading.
var wanted = []string{"veth", "bridge", "bonding", "team", "vrf", "8021q", "macvlan", "tun", "dummy", "ifb", "vmxnet3",
	"virtio_pci", "virtio_net",
	"sch_ingress", "sch_tbf", "cls_bpf"}

// optional are modules that only some of the kernels have.
var optional = []string{"xsk_diag"}

// modules returns the paths of the wanted modules, each after its dependencies, which depmod and
// modprobe of Debian's kmod find. They are in /sbin, which is in root's PATH only.
func (k kernel) modules(ctx context.Context) (paths []string, err error) {
	// Newer kernels have them in usr/lib. Where there is a lib, this fails and changes nothing.
	os.Symlink("usr/lib", filepath.Join(k.root(), "lib"))
	dirs, err := filepath.Glob(filepath.Join(k.root(), "lib/modules/*"))
	if err != nil || len(dirs) != 1 {
		return nil, errors.Join(err, errors.New("no single directory of modules in "+k.root()))
	}
	release := filepath.Base(dirs[0])
	if _, err := os.Stat(filepath.Join(dirs[0], "modules.dep")); err != nil {
		if _, err := output(ctx, "", "/sbin/depmod", "--basedir", k.root(), release); err != nil {
			return nil, err
		}
	}
	show := func(names ...string) (string, error) {
		return output(ctx, "", "/sbin/modprobe", append([]string{"--config", "/dev/null", "--dirname", k.root(),
			"--set-version", release, "--all", "--show-depends"}, names...)...)
	}
	list, err := show(wanted...)
	if err != nil {
		return nil, err
	}
	for _, name := range optional {
		if more, err := show(name); err == nil {
			list += more
		}
	}
	for line := range strings.Lines(list) { // "builtin NAME", or "insmod PATH"
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "insmod "); ok && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// readModule returns a module as the kernel loads it, uncompressed.
func readModule(path string) ([]byte, error) {
	if strings.HasSuffix(path, ".xz") {
		return exec.Command("xz", "--decompress", "--stdout", path).Output()
	}
	return os.ReadFile(path)
}
