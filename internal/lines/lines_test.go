package lines

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/dissect"
)

// A line has its packet's source, if the packets have several, and with -v all other facts.
func TestPacketOrigin(t *testing.T) {
	t.Parallel()
	eth0, eth1 := capture.Source{Name: "eth0"}, capture.Source{Name: "eth\x1b1"}
	target := capture.Program{ID: 7, Name: "prog"}
	entry := capture.Source{Name: "eth0", Hook: capture.Entry, Target: target}
	exit := capture.Source{Name: "eth0", Hook: capture.Exit, Target: target}
	hookMap := capture.Source{Name: "/sys/fs/bpf/map", Hook: capture.TailCall}
	verbose := Format{Options: dissect.Options{Verbose: 1}}
	tests := []struct {
		name    string
		sources []capture.Source
		format  Format
		packet  capture.Packet
		want    string
	}{
		{"one interface", []capture.Source{eth0}, Format{}, capture.Packet{Facts: &capture.Facts{}}, ""},
		{"two interfaces", []capture.Source{eth0, eth1}, Format{}, capture.Packet{Source: 1, Facts: &capture.Facts{}}, `eth\x1b1 `},
		{"pods", []capture.Source{eth0, {Name: "veth0", Pod: capture.Pod{Namespace: "default", Name: "web-1"}}}, Format{},
			capture.Packet{Source: 1, Facts: &capture.Facts{}}, "veth0(default/web-1) "},
		{"one pod", []capture.Source{{Name: "veth0", Pod: capture.Pod{Namespace: "default", Name: "web-1"}}}, Format{},
			capture.Packet{Facts: &capture.Facts{}}, ""},
		{"entry alone", []capture.Source{entry}, Format{}, capture.Packet{Facts: &capture.Facts{}}, ""},
		{"entry and exit, entry", []capture.Source{entry, exit}, Format{}, capture.Packet{Facts: &capture.Facts{}}, "eth0:prog@entry "},
		{"entry and exit, exit", []capture.Source{entry, exit}, Format{}, capture.Packet{Source: 1, Facts: &capture.Facts{Verdict: capture.Drop}},
			"eth0:prog@exit[DROP] "},
		{"unknown verdict", []capture.Source{exit}, Format{}, capture.Packet{Facts: &capture.Facts{Verdict: 77}}, "eth0:prog@exit[77] "},
		{"hook map", []capture.Source{hookMap}, Format{}, capture.Packet{Facts: &capture.Facts{Verdict: capture.Pass}}, "/sys/fs/bpf/map[PASS] "},
		{"colour", []capture.Source{exit}, Format{Color: true}, capture.Packet{Facts: &capture.Facts{Verdict: capture.Drop}},
			"eth0:prog@exit\x1b[31m[DROP]\x1b[0m "},
		{"colour of none", []capture.Source{exit}, Format{Color: true}, capture.Packet{Facts: &capture.Facts{Verdict: 77}}, "eth0:prog@exit[77] "},
		{"verbose", []capture.Source{eth0}, verbose, capture.Packet{Facts: &capture.Facts{Queue: 3, ID: 5}}, "(queue 3, id 5) "},
		{"verbose, with losses", []capture.Source{exit}, verbose, capture.Packet{Facts: &capture.Facts{ID: 5, Dropped: 9, Verdict: capture.Tx}},
			"eth0:prog@exit[TX] (queue 0, id 5, 9 lost before) "},
		{"where it is sent to", []capture.Source{exit}, verbose, capture.Packet{Facts: &capture.Facts{Verdict: capture.Redirect, To: 7}},
			`eth0:prog@exit[REDIRECT to out\x1b7] (queue 0, id 0) `},
		{"where it is sent to, without -v", []capture.Source{exit}, Format{}, capture.Packet{Facts: &capture.Facts{Verdict: capture.Redirect, To: 7}},
			"eth0:prog@exit[REDIRECT] "},
		{"dropped for a reason", []capture.Source{exit}, Format{}, capture.Packet{Facts: &capture.Facts{Verdict: capture.Drop, Reason: 3}},
			`eth0:prog@exit[DROP REASON\x1b3] `},
		{"dropped for a reason, in colour", []capture.Source{exit}, Format{Color: true}, capture.Packet{Facts: &capture.Facts{Verdict: capture.Drop, Reason: 3}},
			"eth0:prog@exit\x1b[31m[DROP REASON\\x1b3]\x1b[0m "},
		{"thrown away", []capture.Source{{Name: "eth0", Hook: capture.StackDrop}}, verbose, capture.Packet{Facts: &capture.Facts{ID: 5, Reason: 3, Location: 9}},
			`eth0@drop[REASON\x1b3 function_9] (id 5) `},
	}
	for _, tt := range tests {
		tt.packet.Time, tt.packet.WireLen = time.Unix(1700000000, 1000).UnixNano(), 60
		d := capture.Description{
			Sources:      tt.sources,
			OutletName:   func(to capture.Outlet) string { return fmt.Sprintf("out\x1b%d", to) },
			ReasonName:   func(_ uint16, f *capture.Facts) string { return fmt.Sprintf("REASON\x1b%d", f.Reason) },
			LocationName: func(l capture.Location) string { return fmt.Sprintf("function_%d", l) },
		}
		got := string(NewText(&d, tt.format).Append(nil, &tt.packet))
		stamp := time.Unix(1700000000, 1000).Local().Format("15:04:05.000000 ")
		got, found := strings.CutPrefix(got, stamp)
		if !found || !strings.HasPrefix(got, tt.want+" [|ether]") {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
