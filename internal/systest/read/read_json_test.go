package read_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The lines of JSON of a file equal, byte for byte, those that the capture wrote beside it, for
// every kind of output. With a filter they are fewer.
func TestReadJSONAsLive(t *testing.T) {
	t.Parallel()
	for name, sources := range map[string][]capture.Source{
		"two":            {systest.PlainSource, {Name: "eth\"1"}},
		"entry and exit": {entrySource, exitSource},
		"egress":         {systest.PlainSource, {Name: "eth0", Hook: capture.Egress}},
		"pods": {
			{Name: "veth0", Pod: capture.Pod{Namespace: "default", Name: "web-1"}},
			{Name: "veth0", Hook: capture.Egress, Alias: "to, pod x/y", Pod: capture.Pod{Namespace: "shop", Name: "db"}},
		},
		"hook map": {{Name: "/sys/fs/bpf/map", Hook: capture.TailCall}},
	} {
		sample := systest.WriteSample(t, sources...)
		var live bytes.Buffer
		sample.WriteTo(t, file.NewWriter(&live, file.Options{Format: file.JSON}))
		want := live.String()
		if diff := cmp.Diff(want, systest.MustRead(t, "--format", "json", sample.Path)); diff != "" {
			t.Errorf("%s: the capture's lines (-) and those of read (+): %s", name, diff)
		}
		if name != "two" {
			continue
		}
		if diff := cmp.Diff(want, systest.MustRead(t, "--format", "json", "-w", "-", sample.Path)); diff != "" {
			t.Errorf("-w -: %s", diff)
		}
		for _, suffix := range []string{".json", ".jsonl.zst", ".json.gz"} {
			out := systest.TempFile(t) + suffix
			systest.MustRead(t, "-w", out, sample.Path)
			var text bytes.Buffer
			testnet.Must(t, systest.Unpack(t, &text, systest.ReadBytes(t, out)))
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Errorf("%s: %s", suffix, diff)
			}
		}
		lines := strings.Count(systest.MustRead(t, "--format", "json", sample.Path, "tcp"), `"protocol":"tcp"`)
		if all := strings.Count(want, `"protocol":"tcp"`); lines == 0 || lines > all {
			t.Errorf("%d lines about TCP of %d", lines, all)
		}
	}
}

// For files of other programs a line has only the data in them: no interface for a pcap file, no
// packet ids, and for an unknown link type only the lengths.
func TestReadJSONOfOthers(t *testing.T) {
	t.Parallel()
	classic := systest.TempFile(t) + ".pcap"
	systest.MustRead(t, "-w", classic, "-c", "1", systest.WriteSample(t, systest.PlainSource).Path)
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	b = pcapng.AppendInterface(b, &pcapng.Interface{Name: "any\x1b", LinkType: 107})
	b = pcapng.AppendPacket(b, &pcapng.Packet{Time: 1e9, Data: make([]byte, 60), WireLen: 84, Flags: pcapng.Outbound})
	for _, test := range []struct{ name, file, want, notice string }{
		{"pcap", classic, `{"time":"2023-11-14T22:13:20.000000000Z","lost_before":0,"length":`, ""},
		{"not Ethernet", writeBytes(t, b),
			`{"time":"1970-01-01T00:00:01.000000000Z","interface":"any\u001b","direction":"out","lost_before":0,"length":84,"captured":60}` + "\n",
			"xdpcap: did not decode 1 packet of link type FRELAY (107)\n"},
	} {
		lines, stderr, status := systest.RunRead(t, nil, "--format", "json", test.file)
		if !strings.HasPrefix(lines, test.want) || !json.Valid([]byte(lines)) || stderr != test.notice || (status == 0) != (stderr == "") {
			t.Errorf("%s: exit status %d: %s%s", test.name, status, stderr, lines)
		}
	}
}

// A file with more interfaces than the encoder caches has all of their lines right.
func TestReadJSONSources(t *testing.T) {
	t.Parallel()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	var want []string
	const interfaces = 1024 + 10 // more than the encoder caches
	for i := range interfaces {
		b = pcapng.AppendInterface(b, &pcapng.Interface{Name: fmt.Sprint("eth", i), LinkType: pcapng.Ethernet})
	}
	for i := range interfaces + 1 {
		b = pcapng.AppendPacket(b, &pcapng.Packet{Interface: uint32(i % interfaces), Data: make([]byte, 4)})
		want = append(want, fmt.Sprint("eth", i%interfaces))
	}
	var got []string
	for line := range strings.Lines(systest.MustRead(t, "--format", "json", writeBytes(t, b))) {
		var keys struct{ Interface string }
		testnet.Must(t, json.Unmarshal([]byte(line), &keys))
		got = append(got, keys.Interface)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
