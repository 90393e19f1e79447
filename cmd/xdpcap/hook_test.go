package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// pinHook pins a target's hook map where a user would find it.
func pinHook(t *testing.T, target *testnet.Target) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "hook")
	if err := target.Hook().Pin(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func filledSlots(t *testing.T, target *testnet.Target) (n int) {
	t.Helper()
	for slot := range uint32(5) {
		var id uint32
		if target.Hook().Lookup(slot, &id) == nil {
			n++
		}
	}
	return n
}

// Each packet of a program with a hook map is captured with its verdict, which does not change,
// whether or not the program takes packets in several buffers. Afterwards the slots are empty.
func TestHookMap(t *testing.T) {
	for _, kind := range []testnet.TargetKind{testnet.Hooked, testnet.HookedFrags} {
		t.Run(string(kind), func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			target := attachTarget(t, pair, kind)
			hook := pinHook(t, target)
			passed := listenIP(t, pair)
			file := tempFile(t)
			p := listening(t, pair.Rx, nil, "--hook", hook, "-w", file, "--json")

			status, stderr := start(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull).wait()
			if status != 1 || !strings.Contains(stderr, "another xdpcap captures there") {
				t.Errorf("a second xdpcap: exit status %d: %s", status, stderr)
			}

			frames := sendRound(t, pair)
			s := account(t, p.interrupt())
			// Of six packets one has a verdict without a slot.
			if s.Seen != 5 || s.Captured != 5 || s.Interface != hook {
				t.Errorf("summary %+v", s)
			}
			var got []int64
			for _, packet := range readTraced(t, file) {
				got = append(got, packet.verdict)
			}
			if diff := cmp.Diff([]int64{1, 0, 3, 2, 2}, got); diff != "" {
				t.Error(diff)
			}
			if n := filledSlots(t, target); n != 0 {
				t.Errorf("%d slots are still filled", n)
			}
			if got, want := verdicts(t, target), [6]uint64{1, 1, 2, 1, 0, 1}; got != want {
				t.Errorf("the target's own counters are %v, want %v", got, want)
			}
			if n := passed(); n != 2 {
				t.Errorf("%d of %d packets reached the stack, want 2", n, len(frames))
			}
		})
	}
}

// Programs that a killed xdpcap left in the slots are replaced. Those of somebody else are left
// alone.
func TestHookMapInUse(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.HookedFrags)
	hook := pinHook(t, target)
	killed := listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull)
	killed.cmd.Process.Kill()
	<-killed.done
	if filledSlots(t, target) != 5 {
		t.Skip("this kernel empties the slots by itself")
	}
	p := listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json", "--verdict", "drop,tx", "udp port 9 or udp port 53")
	sendRound(t, pair)
	if s := account(t, p.interrupt()); s.Seen != 5 || s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
	if n := filledSlots(t, target); n != 0 {
		t.Errorf("%d slots are still filled", n)
	}

	if err := target.Hook().Put(uint32(2), target.Program()); err != nil {
		t.Fatal(err)
	}
	status, stderr := start(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull).wait()
	if status != 1 || !strings.Contains(stderr, "slot pass holds program hooked_target_frags (id ") {
		t.Errorf("a slot in use: exit status %d: %s", status, stderr)
	}
	if n := filledSlots(t, target); n != 1 {
		t.Errorf("%d slots are filled, want the 1 that was", n)
	}
}

// At a hook map, too, the verdict comes before sampling.
func TestHookMapVerdictThenSampling(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := attachTarget(t, pair, testnet.HookedFrags)
	checkVerdictThenSampling(t, pair, "--hook", pinHook(t, target))
}

func TestHookMapErrors(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for args, want := range map[string]string{
		"--hook /no/such/map":                   "hook map /no/such/map does not exist",
		"--hook /no/such/map -i rx0":            "-i and --hook: a hook map is captured alone",
		"--hook /no/such/map --rx-capture exit": "a hook map is captured alone",
		"--hook /no/such/map --sink --yes":      "a hook map is captured alone",
		"--hook /no/such/map -P":                "a hook map has no interface that can be promiscuous",
		"--hook /proc/self/status":              "open hook map /proc/self/status",
	} {
		status, stderr := start(t, pair.Rx, nil, append(strings.Fields(args), "-w", os.DevNull)...).wait()
		if status != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit status %d: %s", args, status, stderr)
		}
	}
}
