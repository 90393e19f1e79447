package capture

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The flags about sFlow, and their impossible values.
func TestSFlowFlags(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	for _, test := range []struct{ line, want string }{
		{"-w sflow://h --sflow-agent 192.0.2.1,7", ""},
		{"-w sflow://h --sflow-agent 2001:db8::1", ""},
		{"-w sflow://h --sample-flows 10 --max-rate 10", ""},
		{"-w a --sflow-agent 192.0.2.1", "--sflow-agent: nothing is sent to an sFlow collector: add -w sflow://HOST"},
		{"-w a --counter-interval 10", "--counter-interval: nothing is sent to an sFlow collector"},
		{"-w sflow://h --first 3", "--first and -w sflow://: a collector multiplies samples by their rate"},
		{"-w sflow://h --sflow-agent host", "--sflow-agent host: must be an IP address"},
		{"-w sflow://h --sflow-agent 192.0.2.1,0", "--sflow-agent 192.0.2.1,0: 0 must be a number from 1 to 4294967295"},
	} {
		_, err := rotationOf(t, test.line)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.line, err, test.want)
		}
	}
	for _, test := range []struct {
		line    string
		snapLen int64
		header  int
	}{
		{"-w sflow://h", 128, 0},
		{"-w sflow://h -s 64", 64, 64},
		{"-w sflow://h -w out.pcapng", 0, 0},
		{"-w sflow://h --print", 0, 0},
		{"-w sflow://h --serve 127.0.0.1:0", 0, 0},
		{"-w sflow://h -s headers", 0, 128},
		{"-w sflow://h -s headers+100", 0, 228},
	} {
		o, err := rotationOf(t, test.line)
		if err != nil || o.snapLen.Bytes != test.snapLen || o.SFlow.Header != test.header {
			t.Errorf("%s: snapshot length %d, %d bytes of header, %v", test.line, o.snapLen.Bytes, o.SFlow.Header, err)
		}
	}
}
