package surroundings_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An sfacctd is pmacct's collector, which writes flows as JSON.
type sfacctd struct{ file string }

func startSfacctd(t *testing.T, pair *testnet.Pair, port uint16) *sfacctd {
	t.Helper()
	testnet.Require(t, "sfacctd")
	dir := t.TempDir()
	s := &sfacctd{file: filepath.Join(dir, "json")}
	config := filepath.Join(dir, "conf")
	err := os.WriteFile(config, fmt.Appendf(nil, `daemonize: false
sfacctd_ip: 127.0.0.1
sfacctd_port: %d
sfacctd_renormalize: true
plugins: print
plugin_buffer_size: 1
aggregate: src_host, dst_host, src_port, dst_port, proto, in_iface, out_iface, vlan, peer_src_ip
print_refresh_time: 1
print_history: 1h
print_output: json
print_output_file: %s
print_output_file_append: true
`, port, s.file), 0o600)
	testnet.Must(t, err)
	startCollector(t, pair, port, "sfacctd", "-f", config)
	return s
}

// check compares sfacctd's estimates of the flows, one for each source port, with the samples.
func (s *sfacctd) check(t *testing.T, flows []systest.SflowSample) {
	want := make(map[string]string)
	for _, f := range flows {
		ports := 34
		if f.Vlan > 0 {
			ports += 4
		}
		key := fmt.Sprint(binary.BigEndian.Uint16(f.Header[ports:]), " ", binary.BigEndian.Uint16(f.Header[ports+2:]))
		want[key] = fmt.Sprintf("from %d to %d VLAN %d: %d packets, %d bytes", f.Input, f.Output, f.Vlan, f.Rate, f.Rate*f.FrameLength)
	}
	var got map[string]string
	testnet.WaitFor(t, "sfacctd", func() bool {
		got = s.read(t)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sfacctd's flows (-want +got):\n%s", diff)
	}
}

// read returns the flows that sfacctd has written so far.
func (s *sfacctd) read(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	flows := make(map[string]string)
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(whole) {
		var f struct {
			VLAN           uint32
			In             uint32 `json:"iface_in"`
			Out            uint32 `json:"iface_out"`
			Source         uint32 `json:"port_src"`
			Destination    uint32 `json:"port_dst"`
			Packets, Bytes uint32
		}
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		flows[fmt.Sprint(f.Source, " ", f.Destination)] = fmt.Sprintf("from %d to %d VLAN %d: %d packets, %d bytes", f.In, f.Out, f.VLAN, f.Packets, f.Bytes)
	}
	return flows
}
