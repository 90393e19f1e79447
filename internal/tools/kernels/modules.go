package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
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

// A module is the uncompressed file of a kernel module.
type module struct {
	name string
	data []byte
}

// modules returns the wanted modules, each after its dependencies. These are read from the modules,
// because the package lacks the list that depmod makes.
func (k kernel) modules() ([]module, error) {
	files := make(map[string]string)
	builtin := make(map[string]bool)
	err := filepath.WalkDir(k.root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch base, ext, found := strings.Cut(entry.Name(), ".ko"); {
		case entry.Name() == "modules.builtin":
			list, err := os.ReadFile(path)
			for _, line := range strings.Fields(string(list)) {
				builtin[moduleName(strings.TrimSuffix(filepath.Base(line), ".ko"))] = true
			}
			return err
		case found && (ext == "" || ext == ".xz"):
			files[moduleName(base)] = path
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var loaded []module
	done, wanted := builtin, slices.Clone(wanted)
	var add func(name string) error
	add = func(name string) error {
		if done[name] {
			return nil
		}
		done[name] = true
		path, ok := files[name]
		if !ok {
			return fmt.Errorf("kernel module %s: not in the package", name)
		}
		data, depends, err := readModule(path)
		if err != nil {
			return fmt.Errorf("kernel module %s: %w", name, err)
		}
		for _, d := range depends {
			if err := add(d); err != nil {
				return err
			}
		}
		loaded = append(loaded, module{name, data})
		return nil
	}
	for _, name := range optional {
		if _, ok := files[name]; ok {
			wanted = append(wanted, name)
		}
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// moduleName replaces each - by _, because both spellings of a module's name are used.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

func readModule(path string) (data []byte, depends []string, err error) {
	if strings.HasSuffix(path, ".xz") {
		data, err = exec.Command("xz", "--decompress", "--stdout", path).Output()
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, nil, fmt.Errorf("%s has no section .modinfo", path)
	}
	info, err := section.Data()
	if err != nil {
		return nil, nil, err
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			for d := range strings.SplitSeq(list, ",") {
				depends = append(depends, moduleName(d))
			}
		}
	}
	return data, depends, nil
}
