package cli

import (
	"path/filepath"
	"strings"
)

// calledAs returns what is set for a process that was called by this name. Programs that start
// tcpdump, such as ksniff and Retina, expect its defaults: both directions, and pcap. ksniff copies
// it into a pod as static-tcpdump.
func calledAs(name string) []setting {
	base := filepath.Base(name)
	if !strings.HasSuffix(base, "tcpdump") {
		return nil
	}
	from := "the name " + base
	return []setting{
		{Flag: "direction", Value: "inout", From: from},
		{Flag: "format", Value: "pcap", From: from},
	}
}
