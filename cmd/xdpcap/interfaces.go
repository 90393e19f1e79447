package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func newInterfaces() *cobra.Command {
	return &cobra.Command{
		Use:     "interfaces",
		Short:   "List the interfaces with driver, XDP mode and XDP program",
		Example: "  xdpcap interfaces",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printInterfaces(cmd.OutOrStdout())
		},
	}
}

func printInterfaces(out io.Writer) error {
	ifis, err := xdp.Interfaces()
	if err != nil {
		return err
	}
	return writeInterfaces(out, ifis)
}

func writeInterfaces(out io.Writer, ifis []xdp.Interface) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tDRIVER\tMTU\tSTATE\tXDP\tPROGRAM\tID")
	for _, ifi := range ifis {
		state := ifi.State
		if !ifi.Up {
			state = "down"
		}
		mode, name, id := "-", "-", "-"
		if len(ifi.Programs) > 0 {
			p := ifi.Programs[0]
			mode, name, id = ifi.Mode.String(), orDash(p.Name), strconv.FormatUint(uint64(p.ID), 10)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", printable(ifi.Name), orDash(ifi.Driver), ifi.MTU, state, mode, name, id)
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func completeInterface(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	ifis, err := xdp.Interfaces()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, ifi := range ifis {
		names = append(names, ifi.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
