package frame

// ListenFlag is the address at which a command serves its counters.
func ListenFlag(address *string) Flag {
	return Flag{Name: "listen", Value: (*Name)(address), Settings: LetsOut | Wiresharks,
		Help: "serve the counters to Prometheus at http://`address`/metrics, and to browsers as a page at /: 127.0.0.1:9432, :9432"}
}

// NoSandboxFlag is --no-sandbox of every command that gives up privileges.
func NoSandboxFlag(off *bool) Flag {
	return Flag{Name: "no-sandbox", Value: off, Settings: Powerful,
		Help: "keep all privileges, instead of giving up those that are not needed once everything is open"}
}

// ModeFlag is --xdp-mode of a command that attaches a program to interfaces without one.
func ModeFlag(mode *string) Flag {
	return Flag{Name: "xdp-mode", Value: mode, Default: "auto", Words: []string{"auto", "native", "generic"},
		Help: "attach in this `mode`: native (in the driver), generic (in the stack), or auto (generic only where the driver has no native mode)",
		Dialog: Dialog{Place: 2, Label: "XDP mode", Choices: []Choice{
			{"", "native, or generic where the driver has none"}, {"native", "native"}, {"generic", "generic"}}}}
}

// ReasonMapFlag is --reason-map of a command that reads why the traced program drops packets.
func ReasonMapFlag(m *string) Flag {
	return Flag{Name: "reason-map", Value: (*Name)(m),
		Help: "read why the XDP program that runs there drops a packet from this `map`: its name, its id, or the path where it is pinned"}
}
