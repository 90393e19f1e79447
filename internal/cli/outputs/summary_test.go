package outputs

import (
	"fmt"
	"os"
	"testing"
)

// Clients connect in the network namespace where the server listens on the loopback address.
func TestServerCommand(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	for _, test := range []struct {
		server liveServer
		name   string
		want   string
	}{
		{liveServer{}, "tcp://127.0.0.1:19000", "xdpcap read tcp://127.0.0.1:19000, or wireshark -k -i TCP@127.0.0.1:19000"},
		{liveServer{netns: " --netns blue"}, "tcp://127.0.0.1:19000",
			fmt.Sprintf("xdpcap read --netns blue tcp://127.0.0.1:19000, or nsenter -t %d -n wireshark -k -i TCP@127.0.0.1:19000", pid)},
		{liveServer{netns: " --netns blue"}, "tcp://192.0.2.1:19000", "xdpcap read tcp://192.0.2.1:19000, or wireshark -k -i TCP@192.0.2.1:19000"},
		{liveServer{netns: " --pod default/web", secure: true}, "tcp://[::1]:19000", "xdpcap read --pod default/web --tls-ca FILE tcp://[::1]:19000"},
	} {
		if got := test.server.command(test.name); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
