package systest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// LinkAt opens the link that holds the XDP program of an interface, as bpftool does.
func LinkAt(t *testing.T, pair *testnet.Pair) link.Link {
	t.Helper()
	var ifi xdp.Interface
	err := pair.Rx.Do(func() (err error) {
		ifi, err = xdp.InterfaceByName(pair.RxName)
		return err
	})
	if err != nil || len(ifi.Programs) != 1 {
		t.Fatalf("%s runs %v, %v", pair.RxName, ifi.Programs, err)
	}
	return testnet.LinksOf(t, ifi.Programs[0].ID)[0]
}

// DetachLink detaches the XDP program of an interface, as another process might.
func DetachLink(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	l := LinkAt(t, pair)
	defer l.Close()
	testnet.Must(t, l.Detach())
}

// LoadDropping loads an XDP program that drops every packet. It has no BTF, so it cannot be traced.
func LoadDropping(t *testing.T) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "another",
		Type: ebpf.XDP,
		// These two must be those of the program that it replaces.
		AttachType: ebpf.AttachXDP,
		Flags:      unix.BPF_F_XDP_HAS_FRAGS,

		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Drop)), asm.Return()},
	})
	testnet.Must(t, err)
	t.Cleanup(func() { prog.Close() })
	return prog
}

// CheckBlind expects that the process fails because it no longer sees packets: with exit status 1,
// and with all these words in the first line of stderr that has want[0].
func CheckBlind(t *testing.T, p *Process, want ...string) {
	t.Helper()
	status, stderr := p.Wait()
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, want[0]) {
			for _, words := range want {
				if !strings.Contains(line, words) {
					t.Errorf("%q does not say %q", line, words)
				}
			}
			return
		}
	}
	t.Errorf("%q does not say %q", stderr, want[0])
}

// PinHook pins a hook map at a user's path.
func PinHook(t *testing.T, hook *ebpf.Map) string {
	t.Helper()
	return PinHookFor(t, hook, 0)
}

// PinHookFor is PinHook for a pin that belongs to a user.
func PinHookFor(t *testing.T, hook *ebpf.Map, uid int) string {
	t.Helper()
	dir := DirectoryFor(t, uid)
	testnet.MustMount(t, "bpf", dir, 0, "")
	path := filepath.Join(dir, "hook")
	testnet.Must(t, hook.Pin(path))
	testnet.Must(t, os.Chown(path, uid, uid))
	return path
}

// Verdicts returns the packets of a target by verdict.
func Verdicts(t *testing.T, target *testnet.Target) [xdp.VerdictSlots]uint64 {
	t.Helper()
	v, err := target.Verdicts()
	testnet.Must(t, err)
	return v
}

// ProgramID returns the id of a target's program, as a flag takes it.
func ProgramID(t *testing.T, target *testnet.Target) string {
	t.Helper()
	info, err := target.Program().Info()
	testnet.Must(t, err)
	id, _ := info.ID()
	return fmt.Sprint(id)
}

// Traced is a packet in a file, with its pcapng options.
type Traced struct {
	Data    []byte
	Id      uint64
	Verdict int64 // -1 = no verdict
	Hook    string

	Comments []string
}

// ReadTraced reads the packets of a file.
func ReadTraced(t *testing.T, path string) []Traced {
	t.Helper()
	_, r := OpenFile(t, path)
	var all []Traced
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if err != nil {
			return all
		}
		ifi, err := r.Interface(ci.InterfaceIndex)
		testnet.Must(t, err)
		p := Traced{Data: data, Verdict: -1, Hook: ifi.Name[strings.LastIndex(ifi.Name, "@")+1:], Comments: opts.Comments}
		if opts.PacketID != nil {
			p.Id = *opts.PacketID
		}
		for _, v := range opts.Verdicts {
			if v.Type == pcapgo.NgEpbVerdictTypeLinuxeBPFXDP && len(v.Data) == 8 {
				p.Verdict = int64(v.Data[0]) | int64(v.Data[1])<<8
			}
		}
		all = append(all, p)
	}
}

// Answers has the ports of a round of frames, and the target's verdict for each.
var Answers = []struct {
	Port    uint16
	Verdict int64
}{{9, 1}, {10, 0}, {11, 3}, {12, int64(testnet.NoVerdict)}, {53, 2}, {443, 2}}

// SendRound sends a frame to each of the ports in Answers, and returns the frames.
func SendRound(t *testing.T, pair *testnet.Pair) (frames [][]byte) {
	t.Helper()
	for _, a := range Answers {
		frames = append(frames, testnet.TxToRx().UDP(1000, a.Port, []byte("payload")))
	}
	testnet.Send(t, pair, frames...)
	return frames
}

// mixedFlow is one flow, of which each target passes some packets and drops others: fragments,
// which are one flow with any data after their IP header.
func mixedFlow(passed, dropped int) (frames [][]byte) {
	for i := range passed + dropped {
		port := uint16(53)
		if i >= passed {
			port = 9
		}
		frame := testnet.TxToRx().UDP(1000, port, []byte("payload"))
		frame[20] |= 0x20 // more fragments
		frames = append(frames, frame)
	}
	return frames
}

// CheckVerdictThenSampling captures the packets that a target drops, while it passes most packets.
// where has the flags that name the target.
func CheckVerdictThenSampling(t *testing.T, pair *testnet.Pair, where ...string) {
	t.Helper()
	const passed, dropped = 20, 5
	for _, test := range []struct {
		args        string
		least, most uint64 // packets captured
	}{
		{"--max-rate 1", 1, dropped},
		{"--sample 5", 0, 2}, // 1 of 5 on each CPU
		{"--first 3 udp or ip", 3, 3},
	} {
		args := slices.Concat([]string{"--verdict", "drop", "-w", os.DevNull, "--json"}, where, strings.Fields(test.args))
		p := Listening(t, pair.Rx, nil, args...)
		testnet.Send(t, pair, mixedFlow(passed, dropped)...)
		s := Account(t, p.Interrupt())
		if s.Seen != passed+dropped || s.FilteredOut != passed || s.NotSampled != dropped-s.Captured {
			t.Errorf("%s: summary %+v", test.args, s)
		}
		if s.Captured < test.least || s.Captured > test.most {
			t.Errorf("%s: %d captured, want %d to %d", test.args, s.Captured, test.least, test.most)
		}
	}
}
