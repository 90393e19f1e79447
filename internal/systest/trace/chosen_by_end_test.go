package trace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// With entries, --verdict chooses both images of a packet: the one before the program has changed
// it, and the one after. With entries alone these have the verdict. The account of each adds up,
// and sampling chooses among the packets with the verdict.
func TestImagesByVerdict(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustTarget(t, pair, testnet.Rewriting)
	for i, test := range []struct {
		args string
		kept []uint16 // the ports of the packets
	}{
		{"--rx-capture entry,exit --verdict drop", []uint16{9}},
		{"--rx-capture entry,exit --verdict pass,77", []uint16{12, 53, 443}},
		{"--rx-capture entry,exit --verdict pass -s 30", []uint16{53, 443}},
		{"--rx-capture entry --verdict drop,aborted", []uint16{9, 10}},
		{"--rx-capture entry --verdict pass udp port 53", []uint16{53}},
		{"--rx-capture entry --verdict 100", nil},
		{"--rx-capture entry,exit --slower-than 4s", nil},
		{"--rx-capture entry,exit --verdict drop,pass --max-rate 1", []uint16{9}},
		{"--rx-capture entry,exit --sample pass=1 udp port 9 or udp port 443", []uint16{9, 443}},
	} {
		for j, transport := range []string{"perf", "ring"} {
			if !testnet.Shared(i + j) {
				continue
			}
			t.Run(test.args+" "+transport, func(t *testing.T) {
				file := systest.TempFile(t)
				p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.args), "-i", pair.RxName, "-w", file, "--json", "--transport", transport)...)
				frames := systest.SendRound(t, pair)
				s := systest.Account(t, p.Interrupt())
				exits := strings.Contains(test.args, "exit")
				checkImages(t, systest.ReadTraced(t, file), frames, test.kept, exits, strings.Contains(test.args, "-s 30"))
				for _, own := range s.Interfaces {
					if own.Seen != uint64(len(frames)) || own.Captured != uint64(len(test.kept)) || own.Lost != 0 || own.Undecided != 0 {
						t.Errorf("the account of the %s: %+v", own.Hook, own)
					}
				}
			})
		}
	}
}

// If a dispatcher and a program that it calls are traced together, a packet is in both at the same
// time. Each has its own entry and exit.
func TestImagesNested(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	last := len(testnet.DispatcherComponents) - 1
	outer, err := d.MainID()
	testnet.Must(t, err)
	inner, err := d.ID(last)
	testnet.Must(t, err)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json", "--rx-capture", "entry,exit", "--verdict", "drop",
		"--program", fmt.Sprint(outer), "--program", fmt.Sprint(inner))
	systest.SendNumbered(t, pair, 2, 64)
	s := systest.Account(t, p.Interrupt())
	for _, own := range s.Interfaces {
		if own.Seen != 2 || own.Captured != 2 {
			t.Errorf("the account of %s at the %s: %+v", own.Program, own.Hook, own.AccountKeys)
		}
	}
	images := make(map[uint64]string) // by packet id
	for _, p := range systest.ReadTraced(t, file) {
		number, _ := testnet.Sequence(p.Data)
		images[p.Id] += fmt.Sprintf("%s %d ", p.Hook, number)
	}
	var got []string
	for _, of := range images {
		got = append(got, of)
	}
	slices.Sort(got)
	want := []string{"fentry 0 fexit 0 ", "fentry 0 fexit 0 ", "fentry 1 fexit 1 ", "fentry 1 fexit 1 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// checkImages compares packets with those of a round that went to these ports, in this order. Each
// has its entry, and then its exit, if exits are recorded. Some are truncated to 30 bytes.
func checkImages(t *testing.T, got []systest.Traced, frames [][]byte, ports []uint16, exits, short bool) {
	t.Helper()
	var want []systest.Traced
	for _, port := range ports {
		i := slices.IndexFunc(systest.Answers, func(a struct {
			Port    uint16
			Verdict int64
		}) bool {
			return a.Port == port
		})
		verdict := systest.Answers[i].Verdict
		entry := systest.Traced{Data: frames[i], Verdict: -1, Hook: "fentry"}
		exit := systest.Traced{Data: frames[i], Verdict: verdict, Hook: "fexit"}
		if verdict == 2 {
			exit.Data = rewritten(frames[i])
		}
		if short {
			entry.Data, exit.Data = entry.Data[:30], exit.Data[:30]
		}
		if !exits {
			entry.Verdict = verdict
			want = append(want, entry)
			continue
		}
		want = append(want, entry, exit)
	}
	for i := range got {
		if isExit := exits && i%2 == 1; isExit && got[i].Id != got[i-1].Id {
			t.Errorf("packet %d has the id %x, and its entry %x", i, got[i].Id, got[i-1].Id)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(systest.Traced{}, "Id", "Comments")); diff != "" {
		t.Error(diff)
	}
}

// rewritten is a frame as the target Rewriting leaves it.
func rewritten(frame []byte) []byte {
	tagged := testnet.VLAN(frame, 7)
	tagged[6] ^= 0x40
	return tagged[:len(frame)+4]
}
