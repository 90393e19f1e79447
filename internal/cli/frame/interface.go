package frame

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// OneInterface is the value of -i for a command that takes one.
type OneInterface string

// Set, String and Type are pflag.Value's.
func (i *OneInterface) Set(name string) error {
	if *i != "" {
		return errors.New("is one too many: it takes only one interface")
	}
	*i = OneInterface(name)
	return nil
}

func (i *OneInterface) String() string { return string(*i) }

func (i *OneInterface) Type() string { return "interface" }

func (i *OneInterface) Forget() { *i = "" }

// WhichInterface is the error of a command that needs -i; also is what else -i takes, such as ", or
// -i any for all".
func (p *Process) WhichInterface(also string) error {
	return fmt.Errorf("which interface? -i %s%s; %s lists them", SomeInterface(), also, p.ListInterfaces())
}

// SomeInterface is one that an example names where the user has named none: the first that is up,
// and that packets can come to from elsewhere.
func SomeInterface() string {
	ifis, _ := xdp.Interfaces()
	for _, ifi := range ifis {
		if reason, _ := ifi.Obstacle(); reason == "" && ifi.Type != "loopback" {
			return escape.ShellWord(ifi.Name)
		}
	}
	return "lo"
}

// interfaceOf is the interface that was given to a command, or else some interface.
func interfaceOf(cmd *cobra.Command) string {
	if i := cmd.Flags().Lookup("interface"); i != nil && i.Changed {
		if several, ok := i.Value.(pflag.SliceValue); ok {
			return escape.ShellWord(several.GetSlice()[0])
		}
		return escape.ShellWord(i.Value.String())
	}
	return SomeInterface()
}

// CheckInterfaces refuses several interfaces with commas between them.
func CheckInterfaces(names []string) error {
	for _, name := range names {
		if strings.Contains(name, ",") {
			return fmt.Errorf("-i %s: give each interface its own -i: -i %s", name, strings.ReplaceAll(name, ",", " -i "))
		}
	}
	return nil
}

// AnyInterface is tcpdump's name for all interfaces.
const AnyInterface = "any"

// IsPattern reports whether a value of -i stands for all interfaces whose names match it. A name
// itself may have a bracket.
func IsPattern(name string) bool {
	_, after, _ := strings.Cut(name, "[")
	return name == AnyInterface || strings.ContainsAny(name, "*?") || strings.Contains(after, "]")
}

// CheckPattern finds mistakes in a pattern of names, or a name.
func CheckPattern(pattern string) error {
	switch _, err := path.Match(pattern, ""); {
	case pattern == "":
		return errors.New("must not be empty")
	case strings.ContainsAny(pattern, " \t/"):
		return errors.New("no interface has such a name: separate names by commas, without spaces")
	case err != nil:
		return errors.New("a [ or a \\ in it is not complete, as in [a-z]")
	}
	return nil
}

// Interfaces are the values of -i: names and patterns.
type Interfaces []string

// Pattern is the first pattern; "" = all are names.
func (all Interfaces) Pattern() string {
	if i := slices.IndexFunc(all, IsPattern); i >= 0 {
		return all[i]
	}
	return ""
}

// Follow reports whether interfaces may come and go.
func (all Interfaces) Follow() bool { return all.Pattern() != "" }

// Named are the values that are no patterns.
func (all Interfaces) Named() []string { return slices.DeleteFunc(slices.Clone(all), IsPattern) }

// Check finds mistakes in names and patterns.
func (all Interfaces) Check() error {
	if err := CheckInterfaces(all); err != nil {
		return err
	}
	for _, pattern := range all {
		if err := CheckPattern(pattern); IsPattern(pattern) && err != nil {
			return fmt.Errorf("-i %q: %w", pattern, err)
		}
	}
	return nil
}

// Want reports whether an interface is among them. For a pattern, it must also be up, have Ethernet
// headers, and not be loopback.
func (all Interfaces) Want(ifi *xdp.Interface) bool {
	obstacle, _ := ifi.Obstacle()
	return slices.ContainsFunc(all, func(name string) bool {
		if !IsPattern(name) {
			return name == ifi.Name
		}
		matches, _ := path.Match(name, ifi.Name)
		return (matches || name == AnyInterface) && obstacle == "" && ifi.Type != "loopback"
	})
}

// OrDash is the table's cell for a word that may be missing: a dash.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
