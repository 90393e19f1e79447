package trace_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A single program that xdp-loader attaches replaces libxdp's dispatcher, which does not run
// itself. Every command uses that program without a flag.
func TestDispatcherOfOne(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.RequireFentry(t)
	spec, err := testnet.TargetSpec()
	testnet.Must(t, err)
	main, err := ebpf.NewProgram(spec.Programs["xdp_dispatcher"])
	testnet.Must(t, err)
	defer main.Close()
	name := testnet.DispatcherComponents[2] // which drops every packet
	replaceMain(t, main, name)
	systest.InRx(t, pair, func(l netlink.Link) error {
		attached, err := link.AttachXDP(link.XDPOptions{Program: main, Interface: l.Attrs().Index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { attached.Close() })
		}
		return err
	})
	findsSole(t, pair, name)
}

// replaceMain makes a component run instead of a program's main function until the test ends, and
// returns the component's id.
func replaceMain(t *testing.T, main *ebpf.Program, component string) (id uint32) {
	t.Helper()
	spec, err := testnet.TargetSpec()
	testnet.Must(t, err)
	info, err := main.Info()
	testnet.Must(t, err)
	extension := spec.Programs[component]
	extension.AttachTarget, extension.AttachTo = main, info.Name
	p, err := ebpf.NewProgram(extension)
	if err != nil {
		t.Fatalf("load a replacement for %s: %v", info.Name, err)
	}
	defer p.Close() // the link keeps it
	l, err := link.AttachFreplace(main, info.Name, p)
	if err != nil {
		t.Fatalf("replace %s: %v", info.Name, err)
	}
	t.Cleanup(func() { l.Close() })
	by, err := xdp.Identify(p)
	testnet.Must(t, err)
	return by.ID
}

// Debian's own xdp-loader attaches a program as TestDispatcherOfOne does: a program of xdp-filter,
// which drops every packet.
func TestLoader(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	testnet.Require(t, "xdp-loader")
	objects, _ := filepath.Glob("/usr/lib/*/bpf/xdpfilt_dny_all.o")
	if len(objects) != 1 {
		t.Fatalf("xdp-tools has the programs %q", objects)
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	loader := func(args ...string) {
		t.Helper()
		if text, err := outputIn(pair.Rx, exec.Command("xdp-loader", args...)); err != nil {
			t.Fatalf("xdp-loader %q: %v\n%s", args, err, text)
		}
	}
	loader("load", "--mode", "native", pair.RxName, objects[0])
	t.Cleanup(func() { loader("unload", "--all", pair.RxName) })
	findsSole(t, pair, "xdpfilt_dny_all")
}

// findsSole tests every command with a dispatcher of one program, which drops every packet, on the
// pair's Rx.
func findsSole(t *testing.T, pair *testnet.Pair, program string) {
	t.Helper()
	const frames = 5
	count := func(args ...string) (*systest.Process, func() string) {
		return systest.Counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1h", "--json")...)
	}
	stats, counted := count("stats")
	latency, measured := count("latency")
	dropped, protocols := count("count", "--verdict", "drop")
	drops, causes := count("drops")
	capture := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--drops", "-w", os.DevNull, "--json", "udp")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0), testnet.UDPFrame(100, 1), testnet.UDPFrame(100, 2), testnet.UDPFrame(100, 3), testnet.UDPFrame(100, 4))
	s := systest.Account(t, capture.Interrupt())
	for _, p := range []*systest.Process{stats, latency, dropped, drops} {
		p.Interrupt()
	}
	for what, n := range map[string]uint64{
		"stats":   systest.LastObject[systest.StatsReport](t, counted()).Verdicts["drop"].Packets,
		"latency": systest.LastObject[systest.LatencyReport](t, measured()).Total.Runs,
		"count":   systest.LastObject[systest.CountReport](t, protocols()).Total.Packets,
		"--drops": s.Captured,
	} {
		if n != frames {
			t.Errorf("%s: %d packets, want %d", what, n, frames)
		}
	}
	if text := causes(); !strings.Contains(text, "which runs "+program) {
		t.Errorf("drops does not name the program: %s", text)
	}
	for _, args := range [][]string{{"interfaces"}, {"interfaces", "--json"}, {"probe", "-i", pair.RxName}} {
		if text, err := outputIn(pair.Rx, systest.Command(args...)); err != nil || !strings.Contains(text, program) {
			t.Errorf("%s does not name the program: %v: %s", args, err, text)
		}
	}
}

// outputIn returns the output of a command in a namespace.
func outputIn(ns *testnet.Namespace, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := ns.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}
