// Package inspect has the commands interfaces, which lists interfaces, and probe, which reports the
// features of this kernel, user and driver.
package inspect

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/pods"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// NewInterfaces returns the command interfaces.
func NewInterfaces(p *frame.Process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "interfaces [--json]",
		Short:   "List the interfaces with driver, XDP mode and XDP program",
		Example: "  xdpcap interfaces\n  xdpcap interfaces --json | jq '.[] | select(.program)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return PrintInterfaces(p, cmd.OutOrStdout(), asJSON)
		},
	}
	frame.AddFlags(cmd, "Output", frame.Flag{Name: "json", Value: &asJSON, Help: "print the report as JSON: one array"})
	return cmd
}

// PrintInterfaces prints the interfaces of this network namespace, as a table or as JSON.
func PrintInterfaces(p *frame.Process, out io.Writer, asJSON bool) error {
	ifis, err := xdp.Interfaces()
	if err != nil {
		return err
	}
	addresses, err := xdp.Addresses()
	if err != nil {
		return err
	}
	owners, _ := p.Pods() // without the pods that this user may not see
	if asJSON {
		return writeInterfacesJSON(out, ifis, addresses, owners)
	}
	return writeInterfaces(out, ifis, addresses, owners)
}

// InterfaceKeys is the object of interfaces --json for an interface.
type InterfaceKeys struct {
	Name      string           `json:"name"`
	Index     int              `json:"index"`
	Alias     string           `json:"alias,omitempty"`
	Namespace string           `json:"namespace,omitempty"` // of the Kubernetes pod that it belongs to
	Pod       string           `json:"pod,omitempty"`
	Type      string           `json:"type"` // link-layer type: "ether", ...
	MAC       string           `json:"mac,omitempty"`
	MTU       int              `json:"mtu"`       // bytes
	Addresses []string         `json:"addresses"` // "192.0.2.1/24", IPv4 first
	Up        bool             `json:"up"`
	State     string           `json:"state"`
	Driver    string           `json:"driver"`                     // "" = it has none
	Speed     uint64           `json:"speed_bits_per_s,omitempty"` // missing = unknown
	RxQueues  int              `json:"rx_queues"`
	Program   *attachedProgram `json:"program"` // null = none
}

type attachedProgram struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"` // "" = this user may not read it
	Mode string `json:"mode"`
	// Runs are the programs that it calls if it is a dispatcher of libxdp, in order.
	Runs []component `json:"runs,omitempty"`
}

type component struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
}

// components returns the programs that the attached one calls if it is a dispatcher of libxdp, and
// if this user may read them.
func components(ifi xdp.Interface) (all []component) {
	running, err := xdp.Running(ifi)
	if err != nil || slices.Equal(running, ifi.Programs) {
		return nil
	}
	for _, p := range running {
		all = append(all, component{p.ID, p.Name})
	}
	return all
}

func writeInterfacesJSON(out io.Writer, ifis []xdp.Interface, addresses map[int][]netip.Prefix, owners *pods.Owners) error {
	all := []InterfaceKeys{}
	for _, ifi := range ifis {
		keys := InterfaceKeys{
			Name:      ifi.Name,
			Index:     ifi.Index,
			Alias:     ifi.Alias,
			Type:      ifi.Type,
			MAC:       ifi.MAC.String(),
			MTU:       ifi.MTU,
			Addresses: []string{},
			Up:        ifi.Up,
			State:     ifi.State,
			Driver:    ifi.Driver,
			Speed:     ifi.Speed,
			RxQueues:  ifi.RxQueues,
		}
		if pod := owners.Of(ifi.Index); pod != nil {
			keys.Namespace, keys.Pod = pod.Namespace, pod.Name
		}
		for _, a := range addresses[ifi.Index] {
			keys.Addresses = append(keys.Addresses, a.String())
		}
		if len(ifi.Programs) > 0 {
			p := ifi.Programs[0]
			keys.Program = &attachedProgram{ID: p.ID, Name: p.Name, Mode: ifi.Mode.String(), Runs: components(ifi)}
		}
		all = append(all, keys)
	}
	return frame.ExplainPrint(message.NewJSONEncoder(out).Encode(all))
}

// writeInterfaces prints a table. It has a column for pods only if an interface belongs to one. The
// programs that a dispatcher calls are in the lines below it.
func writeInterfaces(out io.Writer, ifis []xdp.Interface, addresses map[int][]netip.Prefix, owners *pods.Owners) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	podTitle := ""
	if slices.ContainsFunc(ifis, func(ifi xdp.Interface) bool { return owners.Of(ifi.Index) != nil }) {
		podTitle = "POD\t"
	}
	fmt.Fprintf(t, "NAME\tDRIVER\tMTU\tSTATE\tXDP\tPROGRAM\tID\t%sADDRESSES\n", podTitle)
	for _, ifi := range ifis {
		pod := ""
		if p := owners.Of(ifi.Index); p != nil {
			pod = p.String() + "\t"
		} else if podTitle != "" {
			pod = "-\t"
		}
		state := ifi.State
		if !ifi.Up {
			state = "down"
		}
		mode, name, id := "-", "-", "-"
		if len(ifi.Programs) > 0 {
			p := ifi.Programs[0]
			mode, name, id = ifi.Mode.String(), cmp.Or(p.Name, "-"), strconv.FormatUint(uint64(p.ID), 10)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s%s\n", message.Escape(ifi.Name), cmp.Or(ifi.Driver, "-"), ifi.MTU, state, mode, name, id,
			pod, withoutLinkLocal(addresses[ifi.Index]))
		for _, p := range components(ifi) {
			fmt.Fprintf(t, "\t\t\t\t\t  %s\t%d\t\n", cmp.Or(p.Name, "-"), p.ID)
		}
	}
	return t.Flush()
}

// withoutLinkLocal joins the addresses that are not link-local; "-" if there are none.
func withoutLinkLocal(addresses []netip.Prefix) string {
	var all []string
	for _, a := range addresses {
		if !a.Addr().IsLinkLocalUnicast() {
			all = append(all, a.String())
		}
	}
	return cmp.Or(strings.Join(all, " "), "-")
}
