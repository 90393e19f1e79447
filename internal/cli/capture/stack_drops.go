package capture

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// completeReason offers the reasons of this kernel.
func completeReason(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	names, err := capture.Reasons()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return frame.CompleteList(names...)(cmd, args, word)
}

// checkStackDrops refuses flags that do not go with --drops.
func (o *Options) checkStackDrops(given func(flag string) bool) error {
	if given("reason") && len(o.session.Reasons) == 0 {
		return errors.New("--reason: the list is empty")
	}
	if !o.session.StackDrops {
		if o.recorder.needsReason {
			return errors.New("--trigger reason is about packets that the stack throws away: add --drops")
		}
		return nil
	}
	switch {
	case given("reason") && given("reason-map"):
		return errors.New("--reason and --reason-map: --reason keeps no packet that an XDP program drops: omit one of them")
	case o.sample.verdicts != nil:
		return fmt.Errorf("--drops and --sample %s: packets that the stack throws away have no verdict", &o.sample)
	case o.recorder.atExit != needNothing:
		return fmt.Errorf("--drops and --trigger: packets that the stack throws away have no %v", o.recorder.atExit)
	case o.session.Stamp.IsCards():
		return fmt.Errorf("--drops and -j %v: the stack does not know the card's stamps", o.session.Stamp)
	}
	return nil
}
