package main

import (
	"errors"

	"github.com/spf13/pflag"
)

// A name is the value of a flag that takes a file or an address. It cannot be empty, because a
// script with an empty variable does not mean that the flag was left away.
type name string

// nameVar defines a flag that takes a name, after a letter unless that is "".
func nameVar(f *pflag.FlagSet, n *string, flag, letter, usage string) {
	f.VarP((*name)(n), flag, letter, usage)
}

func (n *name) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*n = name(text)
	return nil
}

func (n *name) String() string { return string(*n) }

func (n *name) Type() string { return "name" }
