package agent

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/xdpcap/xdpcap/internal/sflow"
)

// hostSource is the host as a source of counters.
var hostSource = sflow.Source{Type: sflow.SourceEntity, Index: 1}

// A host reads the counters of this machine.
type host struct {
	sflow.Host
	mhz uint32
}

// newHost describes the machine. Fields that cannot be read stay empty.
func newHost() *host {
	h := &host{Host: sflow.Host{Machine: sflow.MachineOther}}
	h.Name, _ = os.Hostname()
	h.Release = firstLine("/proc/sys/kernel/osrelease")
	if id, err := hex.DecodeString(strings.ReplaceAll(firstLine("/sys/class/dmi/id/product_uuid"), "-", "")); err == nil {
		copy(h.UUID[:], id)
	}
	switch runtime.GOARCH {
	case "amd64":
		h.Machine = sflow.MachineX86_64
	case "arm64":
		h.Machine = sflow.MachineARM
	}
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			h.mhz = uint32(cpus[0].CPUMHz)
		}
	}
	return h
}

// firstLine is the first line of a file, or "".
func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	first, _, _ := strings.Cut(string(b), "\n")
	return first
}

// read reads the current counters. It omits records that cannot be read.
func (h *host) read() polled {
	p := polled{hostSource, []sflow.Counters{&h.Host}}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return p
	}
	if stat, err := fs.Stat(); err == nil {
		p.records = append(p.records, h.cpu(&stat))
	}
	if m, err := fs.Meminfo(); err == nil {
		p.records = append(p.records, memory(&m))
	}
	if devices, err := fs.NetDev(); err == nil {
		p.records = append(p.records, network(devices))
	}
	return p
}

func (h *host) cpu(s *procfs.Stat) *sflow.HostCPU {
	t := s.CPUTotal
	c := &sflow.HostCPU{
		CPUs: uint32(len(s.CPU)), MHz: h.mhz, Uptime: uint32(time.Now().Unix() - int64(s.BootTime)),
		User: milliseconds(t.User), Nice: milliseconds(t.Nice), System: milliseconds(t.System), Idle: milliseconds(t.Idle),
		Waiting: milliseconds(t.Iowait), Interrupts: milliseconds(t.IRQ), SoftInterrupts: milliseconds(t.SoftIRQ),
		InterruptCount: uint32(s.IRQTotal), ContextSwitches: uint32(s.ContextSwitches),
		Stolen: milliseconds(t.Steal), Guest: milliseconds(t.Guest), GuestNice: milliseconds(t.GuestNice),
	}
	fmt.Sscanf(firstLine("/proc/loadavg"), "%f %f %f %d/%d", &c.Load[0], &c.Load[1], &c.Load[2], &c.Running, &c.Threads)
	return c
}

func milliseconds(seconds float64) uint32 { return uint32(uint64(seconds * 1000)) }

func memory(m *procfs.Meminfo) *sflow.HostMemory {
	known := func(v *uint64) uint64 {
		if v == nil {
			return sflow.Unknown64
		}
		return *v
	}
	pages := vmstat()
	return &sflow.HostMemory{
		Total: known(m.MemTotalBytes), Free: known(m.MemFreeBytes), Shared: known(m.ShmemBytes),
		Buffers: known(m.BuffersBytes), Cached: known(m.CachedBytes),
		SwapTotal: known(m.SwapTotalBytes), SwapFree: known(m.SwapFreeBytes),
		PagesIn: pages["pgpgin"], PagesOut: pages["pgpgout"], SwappedIn: pages["pswpin"], SwappedOut: pages["pswpout"],
	}
}

// vmstat reads the kernel's counters of pages, modulo 2^32.
func vmstat() map[string]uint32 {
	counters := make(map[string]uint32)
	f, err := os.Open("/proc/vmstat")
	if err != nil {
		return counters
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var name string
		var value uint64
		if n, _ := fmt.Sscan(lines.Text(), &name, &value); n == 2 {
			counters[name] = uint32(value)
		}
	}
	return counters
}

// network sums up the interfaces except loopback, whose traffic does not leave the machine.
func network(devices procfs.NetDev) *sflow.HostNetwork {
	delete(devices, "lo")
	t := devices.Total()
	return &sflow.HostNetwork{
		In:  sflow.HostTraffic{Octets: t.RxBytes, Packets: uint32(t.RxPackets), Errors: uint32(t.RxErrors), Discarded: uint32(t.RxDropped)},
		Out: sflow.HostTraffic{Octets: t.TxBytes, Packets: uint32(t.TxPackets), Errors: uint32(t.TxErrors), Discarded: uint32(t.TxDropped)},
	}
}
