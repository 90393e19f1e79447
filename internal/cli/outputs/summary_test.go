package outputs

import (
	"fmt"
	"os"
	"testing"
)

// Clients connect in the network namespace where the server listens on the loopback address.
func TestServerCommand(t *testing.T) {
	t.Parallel()
	there := fmt.Sprintf("nsenter -t %d -n ", os.Getpid())
	for _, test := range []struct {
		server liveServer
		name   string
		want   string
	}{
		{liveServer{}, "tcp://127.0.0.1:19000", "xdpcap read tcp://127.0.0.1:19000, or wireshark -k -i TCP@127.0.0.1:19000"},
		{liveServer{elsewhere: true}, "tcp://127.0.0.1:19000",
			there + "xdpcap read tcp://127.0.0.1:19000, or " + there + "wireshark -k -i TCP@127.0.0.1:19000"},
		{liveServer{elsewhere: true}, "tcp://192.0.2.1:19000", "xdpcap read tcp://192.0.2.1:19000, or wireshark -k -i TCP@192.0.2.1:19000"},
		{liveServer{elsewhere: true, secure: true}, "tcp://[::1]:19000", there + "xdpcap read --tls-ca FILE tcp://[::1]:19000"},
	} {
		if got := test.server.command(test.name); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
