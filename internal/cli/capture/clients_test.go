package capture

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/stream"
)

// Clients that come, go or are refused within a second are one message.
func TestClientMessages(t *testing.T) {
	t.Parallel()
	before := connections{"tcp://127.0.0.1:1", stream.ServerAccount{Connected: 2, Clients: 5, Refused: 1}}
	for _, test := range []struct {
		now  stream.ServerAccount
		want string
	}{
		{before.ServerAccount, ""},
		{stream.ServerAccount{Connected: 3, Clients: 6, Refused: 1}, "tcp://127.0.0.1:1: 1 client came, 3 connected"},
		{stream.ServerAccount{Connected: 1, Clients: 5, Refused: 1}, "tcp://127.0.0.1:1: 1 client went, 1 connected"},
		{stream.ServerAccount{Connected: 1, Clients: 7, Refused: 1}, "tcp://127.0.0.1:1: 2 clients came, 3 went, 1 connected"},
		{stream.ServerAccount{Connected: 2, Clients: 6, Refused: 1}, "tcp://127.0.0.1:1: 1 client came, 1 went, 2 connected"},
		{stream.ServerAccount{Connected: 2, Clients: 5, Refused: 3}, "tcp://127.0.0.1:1: 2 clients refused, 2 connected"},
	} {
		if got := (connections{before.name, test.now}).since(before); got != test.want {
			t.Errorf("%+v: %q, want %q", test.now, got, test.want)
		}
	}
}
