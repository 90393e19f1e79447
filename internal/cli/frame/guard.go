package frame

import (
	"fmt"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Guard keeps a command that drops packets from cutting off this machine. The zero Guard allows
// everything.
type Guard struct {
	Flag       string // the flag that drops packets, as it was given: "--sink"; "" = the command drops none
	Interfaces []string
	Yes        bool // --yes was given: the user means it
}

// check returns an error if packets would be dropped on an interface that this machine uses: see
// [xdp.Interface.Use].
func (g Guard) check() error {
	if g.Flag == "" {
		return nil
	}
	if err := ForOwnRights(g.Flag); err != nil || g.Yes {
		return err
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

// ForOwnRights refuses a flag if the binary has capabilities that its caller lacks. It is called
// for flags that change packets' fate, a card, or maps of other programs, or that do more than to
// capture in a namespace that the caller may not enter.
func ForOwnRights(flag string) error {
	if privilege.SecureExecution() {
		return fmt.Errorf("%s: this binary has capabilities that its caller lacks, and lets users only look at packets: start it as root", flag)
	}
	return nil
}

// refuse returns the error for an interface that is used, for this reason; nil if reason is "".
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
