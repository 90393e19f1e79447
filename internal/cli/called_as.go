package cli

import (
	"path/filepath"
	"strings"

	"github.com/xdpcap/xdpcap/internal/settings"
)

// calledAs returns what is set for a process that was called by this name. A program that starts
// tcpdump, such as ksniff or Retina, expects what it does without being asked: both directions, and
// pcap. ksniff calls it static-tcpdump where it copies it to.
func calledAs(name string) []settings.Setting {
	base := filepath.Base(name)
	if !strings.HasSuffix(base, "tcpdump") {
		return nil
	}
	from := "the name " + base
	return []settings.Setting{
		{Flag: "direction", Value: "inout", From: from},
		{Flag: "format", Value: "pcap", From: from},
	}
}
