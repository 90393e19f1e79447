package trace_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// slowFrames are packets for which a target of the kind Slow runs long, to each port of a round,
// with other packets between them.
func slowFrames() (frames [][]byte) {
	for _, a := range systest.Answers {
		for _, from := range []uint16{1000, testnet.SlowPort, 1000} {
			frames = append(frames, testnet.TxToRx().UDP(from, a.Port, []byte("payload")))
		}
	}
	return frames
}

// A slowPacket is a packet in a file: its hook, and the target's run time for it.
type slowPacket struct {
	hook     string // "" = sent
	from, to uint16
	ran      uint32 // ns; 0 = not in the file
}

func readSlow(t *testing.T, file string) (all []slowPacket) {
	t.Helper()
	for _, rec := range systest.ReadTraced(t, file) {
		p := slowPacket{hook: rec.Hook, from: binary.BigEndian.Uint16(rec.Data[34:]), to: binary.BigEndian.Uint16(rec.Data[36:])}
		for _, comment := range rec.Comments {
			fmt.Sscanf(comment, "the program ran %d ns", &p.ran)
		}
		all = append(all, p)
	}
	return all
}

// readRunTimes returns the run times of the packets in a file of JSON that have one.
func readRunTimes(t *testing.T, file string) (all []uint32) {
	t.Helper()
	for _, k := range systest.Objects[systest.PacketKeys](t, systest.Contents(t, file)) {
		if k.RunTime > 0 {
			all = append(all, k.RunTime)
		}
	}
	return all
}

// --slower-than keeps exactly the packets for which the program ran at least this long. An entry
// has the run time if exits are not recorded. It is a part of the filter: sampling chooses among
// the remaining packets. A packet for which the program should run for a moment may take long on a
// busy machine, and is rightly kept then.
func TestSlowerThan(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Slow)
	least := uint32(testnet.SlowTime)
	for i, test := range []struct {
		args    string
		want    []uint16 // ports of slow packets that are kept
		sampled bool     // sampling keeps some of these
	}{
		{"", []uint16{9, 10, 11, 12, 53, 443}, false},
		{"--rx-capture entry,exit", []uint16{9, 10, 11, 12, 53, 443}, false},
		{"--rx-capture entry --verdict pass", []uint16{53, 443}, false},
		{"--verdict drop,pass", []uint16{9, 53, 443}, false},
		{"--verdict tx udp port 11 or udp port 9", []uint16{11}, false},
		{"--filter-at exit udp port 10", []uint16{10}, false},
		{"-Q inout", []uint16{9, 10, 11, 12, 53, 443}, false},
		{"--sample 2", nil, true},
		{"--max-rate 1", nil, true},
	} {
		for j, transport := range []string{"perf", "ring"} {
			if !testnet.Shared(i + j) {
				continue
			}
			t.Run(test.args+" "+transport, func(t *testing.T) {
				file, lines := systest.TempFile(t), systest.NewPipe(t)
				args := append(strings.Fields(test.args), "--slower-than", testnet.SlowTime.String(), "--transport", transport)
				p := systest.Listening(t, pair.Rx, lines.In, append([]string{"-i", pair.RxName, "-w", file, "-w", file + ".json", "--print", "-v", "--json"}, args...)...)
				frames := slowFrames()
				testnet.Send(t, pair, frames...)
				sentOut := uint64(0)
				if strings.Contains(test.args, "inout") {
					systest.SendBack(t, pair, testnet.TxToRx().Reverse().UDP(1000, 53, nil))
					sentOut = 1
				}
				s := systest.Account(t, p.Interrupt())

				var ports []uint16
				var times []uint32
				exits, others := uint64(0), uint64(0)
				timed := "fexit"
				if strings.Contains(test.args, "--rx-capture entry ") {
					timed = "fentry"
				}
				for _, p := range readSlow(t, file) {
					if p.hook != timed {
						if others++; p.ran != 0 {
							t.Errorf("a packet before its exit, or one that is sent, has a run time: %+v", p)
						}
						continue
					}
					exits++
					if times = append(times, p.ran); p.ran < least {
						t.Errorf("the program ran %d ns for a packet that was kept", p.ran)
					}
					if p.from == testnet.SlowPort {
						ports = append(ports, p.to)
					}
				}
				for _, own := range s.Interfaces {
					n := uint64(len(frames))
					switch own.Hook {
					case "entry":
						if own.Seen != n || own.Captured != exits || own.FilteredOut != n-exits || own.Undecided != 0 || timed == "fexit" && others != exits {
							t.Errorf("the entry's account: %+v, %d in the file", own.AccountKeys, others)
						}
					case "exit":
						if own.Seen != n || own.Lost != 0 || own.Captured != exits || own.FilteredOut == 0 {
							t.Errorf("the exit's account: %+v, %d in the file", own.AccountKeys, exits)
						}
						if slow := uint64(len(systest.Answers)); test.sampled && (own.NotSampled+own.Captured < slow || own.NotSampled == 0 || own.Captured == 0) ||
							!test.sampled && own.NotSampled != 0 {
							t.Errorf("the exit's account: %+v, of %d slow packets", own.AccountKeys, slow)
						}
					case "egress":
						if own.Seen != sentOut || own.Captured != sentOut || others != sentOut {
							t.Errorf("the account of sent packets: %+v", own.AccountKeys)
						}
					}
				}
				if !test.sampled {
					if diff := cmp.Diff(test.want, ports); diff != "" {
						t.Errorf("the slow packets: %s", diff)
					}
				}
				if diff := cmp.Diff(times, readRunTimes(t, file+".json")); diff != "" {
					t.Errorf("the run times in JSON: %s", diff)
				}
				for _, ran := range times {
					if want := fmt.Sprintf(", ran %d ns", ran); !strings.Contains(lines.Read(t), want) {
						t.Errorf("the lines do not say %q:\n%s", want, lines.Read(t))
					}
				}
				written, err := os.ReadFile(file)
				if want := fmt.Sprintf("only packets for which the program ran at least %d ns at the exit", least); err != nil || !strings.Contains(string(written), want) {
					t.Errorf("the file does not say %q: %v", want, err)
				}
			})
		}
	}
}

// The recorder writes when the program has run this long for a packet. That packet is the last one.
func TestSlowerTrigger(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Slow)
	file := systest.TempFile(t)
	trigger := "slower:" + testnet.SlowTime.String()
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--ring", "1M", "--trigger", trigger, "--json")
	fast, slow := testnet.TxToRx().UDP(1000, 53, nil), testnet.TxToRx().UDP(testnet.SlowPort, 53, nil)
	testnet.Send(t, pair, fast, fast, slow, fast)
	first := strings.Replace(file, ".pcapng", "-1.pcapng", 1)
	if said := systest.WaitForFile(t, p, first); !strings.Contains(said, "recorded because of: "+trigger+", at ") {
		t.Errorf("said: %s", said)
	}
	p.Interrupt()
	packets := readSlow(t, first)
	fired := slices.IndexFunc(packets, func(p slowPacket) bool { return p.ran >= uint32(testnet.SlowTime) })
	if fired < 0 || fired != len(packets)-1 {
		t.Errorf("packet %d fired, of %+v", fired, packets)
	}
}
