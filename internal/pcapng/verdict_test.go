package pcapng

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// What programs at tc and functions return is read as it was written, and tshark shows it.
func TestVerdictKinds(t *testing.T) {
	t.Parallel()
	file := AppendInterface(AppendSection(nil, &Section{}), &Interface{Name: "eth0", LinkType: 1})
	for _, p := range []Packet{
		{Verdict: 1<<32 - 1, VerdictKind: TCVerdict, Fields: HasVerdict, Remarks: Remarks{TCName: "unspec"}},
		{Verdict: 2, VerdictKind: TCVerdict, Fields: HasVerdict, Remarks: Remarks{TCName: "shot"}},
		{Verdict: 2, VerdictKind: XDPVerdict, Fields: HasVerdict},
		{Verdict: 1<<32 - 22, VerdictKind: PlainNumber, Fields: HasVerdict, Remarks: Remarks{IsReturned: true}},
	} {
		p.WireLen, p.Data = 60, make([]byte, 60)
		block := AppendPacket(nil, &p)
		file = append(file, block...)
		var got Packet
		if err := ParsePacket(Block{Type: TypePacket, Raw: block}, 0, &got); err != nil {
			t.Fatal(err)
		}
		if got.Verdict != p.Verdict || got.VerdictKind != p.VerdictKind || got.Fields != p.Fields {
			t.Errorf("%+v is read as %+v", p, got)
		}
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("no tshark")
	}
	cmd := exec.Command("tshark", "-r", "-", "-T", "fields", "-e", "frame.verdict.ebpf_tc", "-e", "frame.verdict.ebpf_xdp", "-e", "frame.comment")
	cmd.Stdin = bytes.NewReader(file)
	out, err := cmd.Output()
	want := "-1  tc verdict unspec\n2  tc verdict shot\n 2 \n  the function returned -22\n"
	if got := strings.ReplaceAll(string(out), "\t", " "); err != nil || got != want {
		t.Errorf("tshark shows %q, %v; want %q", got, err, want)
	}
}
