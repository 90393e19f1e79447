package frame

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/message"
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

// WhichInterface is the error of a command that needs -i. also adds another value of -i, such as ",
// or -i any for all".
func (p *Process) WhichInterface(also string) error {
	return fmt.Errorf("which interface? -i %s%s; %s lists them", SomeInterface(), also, p.ListInterfaces())
}

// SomeInterface returns the interface for an example where the user has named none: the first one
// that can be captured and is not loopback, else lo.
func SomeInterface() string {
	ifis, _ := xdp.Interfaces()
	if i := slices.IndexFunc(ifis, isOfAny); i >= 0 {
		return message.ShellWord(ifis[i].Name)
	}
	return "lo"
}

// isOfAny reports whether -i any and other patterns may find an interface: it is up, has Ethernet
// headers, and is not loopback.
func isOfAny(ifi xdp.Interface) bool {
	obstacle, _ := ifi.Obstacle()
	return obstacle == "" && ifi.Type != "loopback"
}

// AllInterfaces returns the names of all interfaces that -i any finds now.
func AllInterfaces() (names []string, err error) {
	ifis, err := xdp.Interfaces()
	for _, ifi := range ifis {
		if isOfAny(ifi) {
			names = append(names, ifi.Name)
		}
	}
	return names, err
}

// interfaceOf returns the first interface that was given to a command, else SomeInterface.
func interfaceOf(cmd *cobra.Command) string {
	if i := cmd.Flags().Lookup("interface"); i != nil && i.Changed {
		if several, ok := i.Value.(pflag.SliceValue); ok {
			return message.ShellWord(several.GetSlice()[0])
		}
		return message.ShellWord(i.Value.String())
	}
	return SomeInterface()
}

// CheckInterfaces refuses a value of -i with commas, which people write for several interfaces.
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

// IsPattern reports whether a value of -i is a pattern that names of interfaces match. A single [
// is no pattern, because a name may have one.
func IsPattern(name string) bool {
	_, after, _ := strings.Cut(name, "[")
	return name == AnyInterface || strings.ContainsAny(name, "*?") || strings.Contains(after, "]")
}

// CheckPattern refuses a pattern, or a name, that no interface can match.
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

// Pattern returns the first pattern; "" = all are names.
func (all Interfaces) Pattern() string {
	if i := slices.IndexFunc(all, IsPattern); i >= 0 {
		return all[i]
	}
	return ""
}

// HasPattern reports whether there is a pattern: then matching interfaces may come and go.
func (all Interfaces) HasPattern() bool { return all.Pattern() != "" }

// Names returns the names without the patterns.
func (all Interfaces) Names() []string { return slices.DeleteFunc(slices.Clone(all), IsPattern) }

// Check refuses names and patterns that no interface can match.
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

// Include reports whether an interface has one of the names, or matches a pattern.
func (all Interfaces) Include(ifi *xdp.Interface) bool {
	return slices.ContainsFunc(all, func(name string) bool {
		if !IsPattern(name) {
			return name == ifi.Name
		}
		matches, _ := path.Match(name, ifi.Name)
		return (matches || name == AnyInterface) && isOfAny(*ifi)
	})
}
