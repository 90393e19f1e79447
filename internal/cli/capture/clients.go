package capture

import (
	"fmt"

	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// A server is the output of --serve.
type server interface{ Account() stream.ServerAccount }

// connections has the numbers of the clients of --serve.
type connections struct {
	name string // of the output
	stream.ServerAccount
}

// connections reads the present numbers. It returns false without --serve.
func (r *captureRun) connections() (c connections, ok bool) {
	for _, out := range r.Outputs {
		if s, is := out.Live.(server); is {
			c, ok = connections{out.Name, s.Account()}, true
		}
	}
	return c, ok
}

// since returns a message about the clients that have connected, disconnected or were refused since
// the numbers were before; "" = none.
func (c connections) since(before connections) string {
	come := c.Clients - before.Clients
	gone := before.Connected + int(come) - c.Connected
	var text string
	switch {
	case come > 0 && gone > 0:
		text = fmt.Sprintf("%s came, %d went", frame.Several(come, "client"), gone)
	case come > 0:
		text = frame.Several(come, "client") + " came"
	case gone > 0:
		text = frame.Several(gone, "client") + " went"
	case c.Refused > before.Refused:
		text = frame.Several(c.Refused-before.Refused, "client") + " refused"
	default:
		return ""
	}
	return fmt.Sprintf("%s: %s, %d connected", c.name, text, c.Connected)
}
