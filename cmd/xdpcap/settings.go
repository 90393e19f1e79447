package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A setting is the value of a flag that stands in a file or in the environment.
type setting struct {
	flag, value string
	from        string // "/etc/xdpcap.conf:3", or "XDPCAP_INTERFACE"
}

// systemSettings is the file for all users of the machine; tests have another.
var systemSettings = "/etc/xdpcap.conf"

// settingsPrefix begins the names of environment variables.
const settingsPrefix = "XDPCAP_"

// settingsFileVariable names a file to read instead of the others.
const settingsFileVariable = settingsPrefix + "CONFIG"

// settingsFiles are the files that are read: what a later one sets counts.
func settingsFiles() []string {
	if file := os.Getenv(settingsFileVariable); file != "" {
		return []string{file}
	}
	files := []string{systemSettings}
	if dir, err := os.UserConfigDir(); err == nil { // an error: there is no home
		files = append(files, filepath.Join(dir, "xdpcap", "config"))
	}
	return files
}

// readSettings returns what is set, without what something that counts more sets, too: the
// environment counts more than the user's file, and that more than the machine's. A list has an
// element for each of its lines in a file. The flags are those of all commands.
func readSettings(flags []string) ([]setting, error) {
	var all []setting
	replace := func(by []setting) {
		all = slices.DeleteFunc(all, func(s setting) bool {
			return slices.ContainsFunc(by, func(b setting) bool { return b.flag == s.flag })
		})
		all = append(all, by...)
	}
	for _, file := range settingsFiles() {
		in, err := readSettingsFile(file, flags)
		// Under sudo, $HOME may be that of another user, whose files are closed to this one.
		absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
		if absent && os.Getenv(settingsFileVariable) == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		replace(in)
	}
	for _, flag := range flags {
		if value := os.Getenv(variableOf(flag)); value != "" {
			replace([]setting{{flag, value, variableOf(flag)}})
		}
	}
	return all, nil
}

// variableOf is the environment variable for a flag.
func variableOf(flag string) string {
	return settingsPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readSettingsFile reads lines of the form "flag = value". Empty lines, and those that begin with
// #, are comments.
func readSettingsFile(path string, flags []string) (all []setting, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		from := fmt.Sprintf("%s:%d", path, number)
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: %q has no =: a line is FLAG = VALUE", from, line)
		case !slices.Contains(flags, name):
			return nil, fmt.Errorf("%s: no command has a flag --%s", from, name)
		}
		all = append(all, setting{name, value, from})
	}
	return all, nil
}

// settableFlags are the names of the flags that can be set: those of all commands, but no other
// tool's.
func settableFlags(root *cobra.Command) (names []string) {
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if settable(f) && !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		})
	}
	slices.Sort(names)
	return names
}

func settable(f *pflag.Flag) bool {
	return f != nil && f.Annotations[groupKey] != nil && f.Annotations[typedKey] == nil
}

// typedKey is the annotation of a flag that only the command line can set. Another command has a
// flag of the same name with another meaning, and a setting of that name is meant for that one.
const typedKey = "typed"

// applySettings sets the flags of a command that its command line has not, nor anything that takes
// their place.
func applySettings(cmd *cobra.Command) error {
	all, err := readSettings(settableFlags(cmd.Root()))
	if err != nil {
		return err
	}
	given := make(map[string]bool)
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, pair := range [][2]string{{"interface", "hook"}, {"promiscuous-mode", "no-promiscuous-mode"}, {"expression-file", "filter-file"}} {
		either := given[pair[0]] || given[pair[1]] || pair[1] == "filter-file" && cmd.Flags().NArg() > 0
		given[pair[0]], given[pair[1]] = either, either
	}
	for _, s := range all {
		if !given[s.flag] && settable(cmd.Flags().Lookup(s.flag)) {
			if err := s.apply(cmd.Flags()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s setting) apply(f *pflag.FlagSet) error {
	value := s.value
	if bare := f.Lookup(s.flag).NoOptDefVal; value == "true" && bare != "" {
		value = bare // the flag without a value
	}
	if err := f.Set(s.flag, value); err != nil {
		return fmt.Errorf("%s: %w", s.from, inPlainWords(err))
	}
	return nil
}
