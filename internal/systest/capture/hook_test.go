package capture_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func filledSlots(hook *ebpf.Map) (n int) {
	for slot := range hook.MaxEntries() {
		var id uint32
		if hook.Lookup(slot, &id) == nil {
			n++
		}
	}
	return n
}

func checkSlots(t *testing.T, hook *ebpf.Map, want int) {
	t.Helper()
	if n := filledSlots(hook); n != want {
		t.Errorf("%d of %d slots are filled, want %d", n, hook.MaxEntries(), want)
	}
}

// Each packet of a program with a hook map is captured with its verdict, which does not change,
// whether or not the program supports packets in several buffers. Afterwards the slots are empty.
func TestHookMap(t *testing.T) {
	t.Parallel()
	for _, kind := range []testnet.TargetKind{testnet.Hooked, testnet.HookedFrags} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			target := testnet.MustTarget(t, pair, kind)
			hook := systest.PinHook(t, target.Hook())
			passed := listenIP(t, pair)
			file := systest.TempFile(t)
			printed := systest.NewPipe(t)
			p := systest.Listening(t, pair.Rx, printed.In, "--hook", hook, "-w", file, "--json", "--print", "-tv")

			frames := systest.SendRound(t, pair)
			s := systest.Account(t, p.Interrupt())
			// One of six packets has a verdict without a slot.
			if s.Seen != 5 || s.Captured != 5 || s.Interfaces[0].Interface != hook {
				t.Errorf("summary %+v", s)
			}
			var got []int64
			for _, packet := range systest.ReadTraced(t, file) {
				got = append(got, packet.Verdict)
			}
			if diff := cmp.Diff([]int64{1, 0, 3, 2, 2}, got); diff != "" {
				t.Error(diff)
			}
			// Each line begins with the packet's hook and verdict.
			var verdicts []string
			for _, m := range regexp.MustCompile(regexp.QuoteMeta(hook)+`\[(\w+)\] \(queue 0, id `).FindAllStringSubmatch(printed.Read(t), -1) {
				verdicts = append(verdicts, m[1])
			}
			if diff := cmp.Diff([]string{"DROP", "ABORTED", "TX", "PASS", "PASS"}, verdicts); diff != "" {
				t.Errorf("lines: %s%s", printed.Read(t), diff)
			}
			checkSlots(t, target.Hook(), 0)
			if got, want := systest.Verdicts(t, target), [6]uint64{1, 1, 2, 1, 0, 1}; got != want {
				t.Errorf("the target's own counters are %v, want %v", got, want)
			}
			if n := passed(); n != 2 {
				t.Errorf("%d of %d packets reached the stack, want 2", n, len(frames))
			}
		})
	}
}

// The programs that a killed xdpcap left in the slots sample no packets, use no memory for rings,
// and are replaced. Programs of other tools stay.
func TestHookMapInUse(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.HookedFrags)
	hook := systest.PinHook(t, target.Hook())
	killed := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull)
	var stub ebpf.ProgramID
	testnet.Must(t, target.Hook().Lookup(uint32(0), &stub))
	program, maps := behindStub(t, stub)
	killed.Cmd.Process.Kill()
	<-killed.Done
	systest.WaitReleased(t, program, maps)
	systest.SendRound(t, pair)
	if filledSlots(target.Hook()) != 5 {
		t.Skip("this kernel empties the slots by itself")
	}
	p := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json", "--verdict", "drop,tx", "--filter-at", "exit", "udp port 9 or udp port 53")
	systest.SendRound(t, pair)
	if s := systest.Account(t, p.Interrupt()); s.Seen != 5 || s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
	checkSlots(t, target.Hook(), 0)

	testnet.Must(t, target.Hook().Put(uint32(2), target.Program()))
	status, stderr := systest.Start(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull).Wait()
	if status != 1 || !strings.Contains(stderr, "slot pass holds program hooked_target_frags (id ") {
		t.Errorf("a slot in use: exit status %d: %s", status, stderr)
	}
	checkSlots(t, target.Hook(), 1)
}

// At a hook map, too, the verdict is matched before sampling.
func TestHookMapVerdictThenSampling(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.HookedFrags)
	systest.CheckVerdictThenSampling(t, pair, "--hook", systest.PinHook(t, target.Hook()))
}

// The owner of a hook map may be any XDP program, and the map may be a map of the convention
// without a slot for redirect.
func TestHookMapOwners(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		name       string
		attachType ebpf.AttachType
		flags      uint32
		slots      uint32
	}{
		{"loaded without attach type", ebpf.AttachNone, 0, 5},
		{"with packets in several buffers", ebpf.AttachNone, unix.BPF_F_XDP_HAS_FRAGS, 5},
		{"in a devmap", ebpf.AttachXDPDevMap, 0, 5},
		{"in a cpumap", ebpf.AttachXDPCPUMap, unix.BPF_F_XDP_HAS_FRAGS, 5},
		{"without a slot for redirect", ebpf.AttachXDP, 0, 4},
		{"with slots for more", ebpf.AttachXDP, 0, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, owner := newHookOwner(t, &ebpf.ProgramSpec{Type: ebpf.XDP, AttachType: test.attachType, Flags: test.flags}, test.slots)
			hook := systest.PinHook(t, m)
			p := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json")
			checkSlots(t, m, int(min(test.slots, 5)))
			var calls uint64
			if test.attachType == ebpf.AttachNone || test.attachType == ebpf.AttachXDP { // others run only in their maps
				calls = 1
				if verdict, err := owner.Run(&ebpf.RunOptions{Data: testnet.UDPFrame(64, 0)}); err != nil || verdict != uint32(xdp.Tx) {
					t.Errorf("the owner's verdict is %d, %v", verdict, err)
				}
			}
			if s := systest.Account(t, p.Interrupt()); s.Captured != calls {
				t.Errorf("summary %+v", s)
			}
			checkSlots(t, m, 0)
		})
	}
	t.Run("no XDP program", func(t *testing.T) {
		m, _ := newHookOwner(t, &ebpf.ProgramSpec{Type: ebpf.SchedCLS}, 5)
		status, stderr := systest.Start(t, pair.Rx, nil, "--hook", systest.PinHook(t, m), "-w", os.DevNull).Wait()
		if status != 1 || !strings.Contains(stderr, "programs of the type SchedCLS call it, and no XDP programs") {
			t.Errorf("exit status %d: %s", status, stderr)
		}
	})
}

// newHookOwner loads a program that makes a tail call for the verdict tx, and returns it with its
// hook map.
func newHookOwner(t *testing.T, spec *ebpf.ProgramSpec, slots uint32) (*ebpf.Map, *ebpf.Program) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: slots})
	testnet.Must(t, err)
	t.Cleanup(func() { m.Close() })
	spec.Instructions = asm.Instructions{
		asm.LoadMapPtr(asm.R2, m.FD()),
		asm.Mov.Imm(asm.R3, int32(xdp.Tx)),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, int32(xdp.Tx)),
		asm.Return(),
	}
	owner, err := ebpf.NewProgram(spec)
	testnet.Must(t, err)
	t.Cleanup(func() { owner.Close() })
	return m, owner
}

// The lock of a hook map is held in every network namespace, and only for this map.
func TestHookMapElsewhere(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	m, _ := newHookOwner(t, &ebpf.ProgramSpec{Type: ebpf.XDP}, 5)
	other, _ := newHookOwner(t, &ebpf.ProgramSpec{Type: ebpf.XDP}, 5)
	hook := systest.PinHook(t, m)
	testnet.Must(t, other.Pin(hook+"2"))
	first := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", os.DevNull, "--json")
	beside := systest.Listening(t, pair.Rx, nil, "--hook", hook+"2", "-w", os.DevNull, "--json")
	status, stderr := systest.Start(t, pair.Tx, nil, "--hook", hook, "-w", os.DevNull).Wait()
	if status != 1 || !strings.Contains(stderr, "another xdpcap captures there") {
		t.Errorf("a second xdpcap: exit status %d: %s", status, stderr)
	}
	first.Interrupt()
	beside.Interrupt()
}

func TestHookMapErrors(t *testing.T) {
	t.Parallel()
	systest.CheckRefused(t, testnet.MustPair(t, testnet.PairOptions{}), map[string]string{
		"--hook /no/such/map":                   "open hook map /no/such/map: it does not exist",
		"--hook /no/such/map -i rx0":            "-i and --hook: a hook map is captured alone",
		"--hook /no/such/map --rx-capture exit": "a hook map is captured alone",
		"--hook /no/such/map --sink --yes":      "a hook map is captured alone",
		"--hook /no/such/map -P":                "a hook map is captured alone",
		"--hook /proc/self/status":              "open hook map /proc/self/status: it is not a pinned map, nor in a BPF file system",
		"--hook /proc":                          "open hook map /proc: it is a directory, not a pinned map",
	})
}

// behindStub returns the program that a stub calls, and its maps.
func behindStub(t *testing.T, stub ebpf.ProgramID) (id ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	arrays, err := systest.MapsOf(stub)
	if err != nil || len(arrays) != 1 {
		t.Fatalf("program %d has %d maps, a stub has one; %v", stub, len(arrays), err)
	}
	array, err := ebpf.NewMapFromID(arrays[0])
	testnet.Must(t, err)
	defer array.Close()
	testnet.Must(t, array.Lookup(uint32(0), &id))
	if maps, err = systest.MapsOf(id); err != nil {
		t.Fatal(err)
	}
	return id, maps
}
