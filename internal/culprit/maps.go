package culprit

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/xdpcap/xdpcap/internal/lost"
)

// namesOfMaps returns the names of the maps that XDP programs redirect by: devmaps, cpumaps, maps
// of sockets.
func namesOfMaps() map[string]string {
	names := make(map[string]string)
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		switch info, err := m.Info(); {
		case err != nil:
		case info.Type == ebpf.DevMap || info.Type == ebpf.DevMapHash || info.Type == ebpf.CPUMap || info.Type == ebpf.XSKMap:
			names[fmt.Sprint("map ", id)] = fmt.Sprintf("map %s (id %d), a %s", info.Name, id, strings.ToLower(info.Type.String()))
		}
		m.Close()
	}
	return names
}

// findProgram names the XDP program, and the map of a redirect.
func (f *Finder) findProgram(l Loss, _ lost.Counters) []Evidence {
	var names []string
	if name, ok := f.maps[l.Function]; ok {
		names = append(names, name)
	}
	if l.Program != "" {
		names = append(names, "program "+l.Program)
	}
	if names == nil {
		return nil
	}
	return []Evidence{{Text: strings.Join(names, ", of ")}}
}
