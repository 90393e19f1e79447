package replay

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Program is an XDP program to run packets through.
type Program struct {
	Kernel *ebpf.Program
	Named  xdp.Program

	File string // the object file that it was loaded from; "" = it was loaded before

	// IsShared means that the program's maps are also used outside of this process: its runs change
	// them for others, too.
	IsShared bool

	outlets *outlets // nil = the interfaces of its redirects are unknown

	idle   time.Duration    // the run time that the kernel measures for an empty program
	loaded *ebpf.Collection // has the program and its maps, if it comes from an object file
}

// String names the program.
func (p *Program) String() string {
	if p.File == "" {
		return p.Named.String()
	}
	return p.Named.Name + " of " + p.File
}

// Close releases the program and its maps.
func (p *Program) Close() {
	p.outlets.close()
	if p.loaded != nil {
		p.loaded.Close()
	}
	p.Kernel.Close()
}

// A Recipe is the program to run and, if it comes from an object file, the content of its maps.
type Recipe struct {
	// Name is the name or id of a loaded program, the path where one is pinned, or that of an
	// object file: FILE, or FILE:FUNCTION if it has several XDP programs.
	Name string

	Pins      string   // a directory of pinned maps, which take the place of those with their names; "" = none
	Maps      []string // NAME=FILE: a map's entries, as `bpftool -j map dump` prints them
	Constants []string // NAME=VALUE: a global variable, and a number

	// Outlets are the interfaces to which the program redirects packets. They can be found out on a
	// kernel with fexit, and not for a program that was loaded before: it may run on other packets
	// at the same time.
	Outlets bool
}

// Open opens or loads the program. It is attached nowhere. It needs CAP_BPF, and CAP_SYS_ADMIN for
// a program that is loaded already.
func (r Recipe) Open() (*Program, error) {
	p, err := r.open()
	if err != nil {
		return nil, err
	}
	if r.Outlets && p.File != "" {
		p.outlets, _ = openOutlets(p.Kernel) // nil if this kernel cannot trace the program
	}
	if p.idle, err = measureIdle(p.outlets != nil); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (r Recipe) open() (*Program, error) {
	path, function := r.Name, ""
	if i := strings.LastIndexByte(path, ':'); i > 0 {
		path, function = path[:i], path[i+1:]
	}
	isFile := strings.Contains(r.Name, "/") || strings.HasSuffix(path, ".o")
	if isFile && !isPinned(r.Name) {
		return r.load(path, function)
	}
	if r.Pins != "" || r.Maps != nil || r.Constants != nil {
		return nil, fmt.Errorf("%s is loaded already, with its maps and constants: others can be given for an object file, FILE.o", r.Name)
	}
	if isFile {
		return openPinned(r.Name)
	}
	named, err := xdp.FindProgram(r.Name)
	if err != nil {
		return nil, err
	}
	prog, err := xdp.OpenProgram(named.ID)
	if err != nil {
		return nil, fmt.Errorf("open XDP program %v: %w", named, err)
	}
	return &Program{Kernel: prog, Named: named, IsShared: true}, nil
}

// isPinned reports whether a path is in a BPF file system.
func isPinned(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Type == unix.BPF_FS_MAGIC
}

func openPinned(path string) (*Program, error) {
	prog, err := ebpf.LoadPinnedProgram(path, nil)
	if err != nil {
		return nil, fmt.Errorf("open the pinned program %s: %w", path, err)
	}
	if prog.Type() != ebpf.XDP {
		prog.Close()
		return nil, fmt.Errorf("%s is a program of type %v, not of XDP", path, prog.Type())
	}
	named, err := xdp.Identify(prog)
	if err != nil {
		prog.Close()
		return nil, fmt.Errorf("ask the kernel about %s: %w", path, err)
	}
	return &Program{Kernel: prog, Named: named, IsShared: true}, nil
}

// load loads a program of an object file.
func (r Recipe) load(path, function string) (*Program, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	spec, err := ebpf.LoadCollectionSpecFromReader(f)
	if err != nil {
		return nil, fmt.Errorf("read the object file %s: %w", path, err)
	}
	if function, err = choose(spec, path, function); err != nil {
		return nil, err
	}
	if err := r.setConstants(spec); err != nil {
		return nil, err
	}
	shared, err := r.pinnedMaps(spec)
	defer func() {
		for _, m := range shared {
			m.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, support.ExplainLoad(fmt.Sprintf("load %s of %s", function, path), err)
	}
	p := &Program{Kernel: loaded.Programs[function], File: path, IsShared: len(shared) > 0, loaded: loaded}
	if p.Named, err = xdp.Identify(p.Kernel); err == nil {
		err = r.fillMaps(loaded)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// choose returns the name of the XDP program to run. It removes from spec what the program does not
// use: other programs, maps and variables, which this kernel may refuse.
func choose(spec *ebpf.CollectionSpec, path, function string) (string, error) {
	var names []string
	for name, p := range spec.Programs {
		if p.Type == ebpf.XDP && p.AttachType != ebpf.AttachXDPDevMap && p.AttachType != ebpf.AttachXDPCPUMap {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%s has no XDP program", path)
	case function == "" && len(names) == 1:
		function = names[0]
	case !slices.Contains(names, function):
		return "", fmt.Errorf("which program of %s? %[1]s:NAME, with one of %s", path, strings.Join(names, ", "))
	}
	used := map[string]bool{function: true}
	addUsed(spec, function, used)
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !used[name] })
	maps.DeleteFunc(spec.Maps, func(name string, _ *ebpf.MapSpec) bool { return !used[name] })
	maps.DeleteFunc(spec.Variables, func(_ string, v *ebpf.VariableSpec) bool { return !used[v.SectionName] })
	return function, nil
}

// addUsed adds the names of the maps that a program uses and, recursively, those of the programs in
// the maps' initial entries.
func addUsed(spec *ebpf.CollectionSpec, program string, used map[string]bool) {
	for _, ins := range spec.Programs[program].Instructions {
		name := ins.Reference()
		m := spec.Maps[name]
		if m == nil || used[name] {
			continue
		}
		used[name] = true
		for _, entry := range m.Contents {
			if other, ok := entry.Value.(string); ok && spec.Programs[other] != nil && !used[other] {
				used[other] = true
				addUsed(spec, other, used)
			}
		}
	}
}

// pinnedMaps opens the program's maps in the directory Pins. The caller closes them, also after an
// error. The other maps are not pinned, even if the object file declares that.
func (r Recipe) pinnedMaps(spec *ebpf.CollectionSpec) (map[string]*ebpf.Map, error) {
	found := make(map[string]*ebpf.Map)
	for name, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
		if r.Pins == "" {
			continue
		}
		pinned, err := ebpf.LoadPinnedMap(filepath.Join(r.Pins, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("open the pinned map %s: %w", filepath.Join(r.Pins, name), err)
		}
		found[name] = pinned
	}
	if r.Pins != "" && len(found) == 0 {
		return found, fmt.Errorf("%s has none of the program's maps: %s", r.Pins, strings.Join(slices.Sorted(maps.Keys(spec.Maps)), ", "))
	}
	return found, nil
}
