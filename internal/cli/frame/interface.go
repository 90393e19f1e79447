package frame

import (
	"errors"
	"fmt"
	"strings"
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

// CheckInterfaces refuses several interfaces with commas between them.
func CheckInterfaces(names []string) error {
	for _, name := range names {
		if strings.Contains(name, ",") {
			return fmt.Errorf("-i %s: give each interface its own -i: -i %s", name, strings.ReplaceAll(name, ",", " -i "))
		}
	}
	return nil
}

// OrDash is the table's cell for a word that may be missing: a dash.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
