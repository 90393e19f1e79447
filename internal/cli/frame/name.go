package frame

import (
	"errors"
	"strings"
)

// A Name is the value of a flag that takes a file or an address. It must not be empty, because in a
// script that is an unset variable and not an omitted flag.
type Name string

// A NameList is the values of a flag that takes a Name and may be repeated.
type NameList []string

// Set, String and Type are pflag.Value's.
func (n *NameList) Set(text string) error {
	var one Name
	if err := one.Set(text); err != nil {
		return err
	}
	*n = append(*n, text)
	return nil
}

func (n *NameList) String() string { return strings.Join(*n, " ") }

func (n *NameList) Type() string { return "name" }

// Append, Replace and GetSlice make it a pflag.SliceValue.
func (n *NameList) Append(text string) error     { return n.Set(text) }
func (n *NameList) Replace(texts []string) error { *n = texts; return nil }
func (n *NameList) GetSlice() []string           { return *n }

// Set, String and Type are pflag.Value's.
func (n *Name) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*n = Name(text)
	return nil
}

func (n *Name) String() string { return string(*n) }

func (n *Name) Type() string { return "name" }

func (n *Name) Forget() { *n = "" }

// SocketPath returns the path of a socket in the file system: --serve and read take unix:PATH.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }
