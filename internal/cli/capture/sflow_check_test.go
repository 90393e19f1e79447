package capture

import (
	"testing"
)

// A collector alone gets as much of a packet as -s says, or 128 bytes of it.
func TestSFlowHeader(t *testing.T) {
	t.Parallel()
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
