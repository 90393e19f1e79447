package capture

import (
	"fmt"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
)

// transportNames are the values of --transport.
func transportNames() (names []string) {
	for _, t := range append(capture.Transports(), capture.TransportAuto) {
		names = append(names, t.String())
	}
	return names
}

// aboutTransports lists the values of --transport with what tells them apart.
func aboutTransports() string {
	var list []string
	for _, t := range capture.Transports() {
		list = append(list, fmt.Sprintf("%v (%s)", t, t.About()))
	}
	auto := capture.TransportAuto
	return fmt.Sprintf("%s, or %v (%s)", strings.Join(list, ", "), auto, auto.About())
}

// longestPackets lists the largest snapshot lengths of the transports; the first is that of the
// default.
func longestPackets() (text string) {
	for i, t := range capture.Transports() {
		if i == 0 {
			text = fmt.Sprint(t.MaxSnapLen())
		} else {
			text += fmt.Sprintf(", or %d with --transport %v", t.MaxSnapLen(), t)
		}
	}
	return text
}
