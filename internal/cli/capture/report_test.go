package capture

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
)

// One packet is "1 packet", as in tcpdump, and a message names an interface without a driver by its
// name alone.
func TestCountsOfOne(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeCounts(&out, capture.Account{Seen: 1, Captured: 1}, "captured")
	want := "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n" +
		"xdpcap: 1 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 1 captured\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	writeCounts(&out, capture.Account{Seen: 3, Captured: 1, Unexplained: 2}, "captured")
	if want := " + 1 captured + 2 unexplained\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%q does not end in %q", out.String(), want)
	}
	for _, test := range []struct{ driver, want string }{{"", "lo"}, {"veth", "driver veth of lo"}} {
		if got := driverOf(capture.Source{Name: "lo", Driver: test.driver}); got != test.want {
			t.Errorf("%q: %s", test.driver, got)
		}
	}
}

// The first message lists interfaces by how they are captured, and names at most eight of a kind. A
// warning about many interfaces is one line, too.
func TestPlaces(t *testing.T) {
	t.Parallel()
	veths := func(n int, hook capture.Hook) (all []capture.Source) {
		for i := range n {
			all = append(all, capture.Source{Name: fmt.Sprintf("veth%d", i+1), Driver: "veth", Hook: hook, Mode: capture.Native})
		}
		return all
	}
	eth0 := capture.Source{Name: "eth0", Driver: "ice", Hook: capture.XDP, Mode: capture.Native}
	sent := capture.Source{Name: "eth0", Hook: capture.Egress}
	pod := capture.Source{Name: "veth9", Hook: capture.Ingress, Pod: capture.Pod{Namespace: "default", Name: "web-1"}}
	for _, test := range []struct {
		sources []capture.Source
		want    string
	}{
		{[]capture.Source{eth0, {Name: "eth1", Hook: capture.XDP, Mode: capture.Native}}, "eth0,eth1, XDP native"},
		{[]capture.Source{eth0, sent}, "eth0, XDP native, and on eth0@egress, egress"},
		{[]capture.Source{eth0, pod}, "eth0, XDP native, and on veth9@ingress (pod default/web-1), tc ingress"},
		{append(veths(2, capture.Ingress), eth0), "veth1@ingress,veth2@ingress, tc ingress, and on eth0, XDP native"},
		{append(veths(30, capture.Ingress), eth0), "veth1@ingress,veth2@ingress,veth3@ingress,veth4@ingress,veth5@ingress,veth6@ingress," +
			"veth7@ingress,veth8@ingress and 22 others, tc ingress, and on eth0, XDP native"},
		{veths(30, capture.XDP), "veth1,veth2,veth3,veth4,veth5,veth6,veth7,veth8 and 22 others, XDP native"},
	} {
		var out bytes.Buffer
		announce(&out, test.sources, capture.Options{}, nil, false)
		want := "xdpcap: listening on " + test.want + ", link-type EN10MB (Ethernet), snapshot length 0 bytes\n"
		if test.sources[0].Driver == "veth" && test.sources[0].Hook == capture.XDP {
			want = "xdpcap: " + strings.TrimSuffix(test.want, ", XDP native") +
				": while XDP runs here, the other end of the veth pair sends TCP much slower, without TSO: --at tc avoids that\n" + want
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}

// The first messages of a capture include the size at which it ends, and the flags for going on.
func TestEndsAtSize(t *testing.T) {
	t.Parallel()
	const ends, of, instead = "ends when all files together have 2 MiB (--max-bytes); with ", "-C and -W, or -b files:N,", " it would remove the oldest instead"
	for line, want := range map[string]string{
		"-w out":                               "",
		"-w out -C 1":                          "",
		"-w out --max-bytes 2M":                ends + of + instead,
		"-w out -C 1 --max-bytes 2M":           ends + of + instead,
		"-w %T -G 60 -W 9 --max-bytes 2M":      ends + of + instead,
		"-w out -C 1 -W 9 --max-bytes 2M":      "",
		"-w out --ring 1M":                     "",
		"-w out --ring 1M --max-bytes 2M":      ends + "-W N" + instead,
		"-w out --ring 1M --max-bytes 2M -W 9": "",
	} {
		o, err := rotationOf(t, line)
		if got := o.endsAtSize(); err != nil || got != want {
			t.Errorf("%s: %q, want %q, %v", line, got, want, err)
		}
	}
}
