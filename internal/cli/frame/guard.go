package frame

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Guard keeps a command that drops packets from cutting off this machine. The zero Guard allows
// everything.
type Guard struct {
	Flag       string // the flag that drops packets, as it was given: "--sink"; "" = none does
	Interfaces []string
	Yes        bool // --yes was given: the user means it
}

// check returns an error where packets would be dropped on an interface over which this machine, or
// something on it, talks: see [xdp.Interface.Use].
func (g Guard) check() error {
	if g.Flag != "" {
		if err := ForOwnRights(g.Flag); err != nil {
			return err
		}
	}
	if g.Flag == "" || g.Yes {
		return nil
	}
	for _, name := range g.Interfaces {
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return err
		}
		reason, remedy, err := ifi.Use()
		if err != nil {
			return err
		}
		if err := g.refuse(reason, remedy); err != nil {
			return err
		}
	}
	return nil
}

// ForOwnRights refuses a flag if the caller has no rights of his own for it, but only those of the
// binary. Such a flag changes what happens to packets, or changes a card or the maps of somebody's
// program, or does more than to look at packets in a namespace that the caller may not enter.
func ForOwnRights(flag string) error {
	if privilege.SecureExecution() {
		return fmt.Errorf("%s: this binary has capabilities that its caller lacks, and lets users only look at packets: start it as root", flag)
	}
	return nil
}

// refuse returns the error for an interface that is used, or nil.
func (g Guard) refuse(reason, remedy string) error {
	if reason == "" {
		return nil
	}
	if remedy != "" {
		remedy += "; or "
	}
	return fmt.Errorf("%s drops packets, and %s: this machine would be disturbed or cut off; %sadd --yes to do it anyway",
		g.Flag, reason, remedy)
}
