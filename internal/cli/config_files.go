package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// A setting is the value of a flag in a file or in the environment.
type setting struct {
	Flag, Value string
	From        string // "/etc/xdpcap.conf:3", or "XDPCAP_INTERFACE"
}

// settingsFiles are the files with settings.
type settingsFiles struct {
	Machine string    // the path of the file for all users of the machine
	Unset   []setting // settings with the lowest precedence, which depend on the program's name
}

// SettingPrefix begins the names of environment variables.
const SettingPrefix = "XDPCAP_"

// SettingsVariable names a file to read instead of the others.
const SettingsVariable = SettingPrefix + "CONFIG"

// Paths returns the files to read. A later one overrides the earlier ones. A binary with
// capabilities that its caller lacks reads only the machine's file.
func (f settingsFiles) Paths() []string {
	if privilege.SecureExecution() {
		return []string{f.Machine}
	}
	if file := os.Getenv(SettingsVariable); file != "" {
		return []string{file}
	}
	files := []string{f.Machine}
	if dir, err := os.UserConfigDir(); err == nil { // an error: there is no home
		files = append(files, filepath.Join(dir, "xdpcap", "config"))
	}
	return files
}

// Read merges the settings: the environment overrides the user's file, which overrides the
// machine's. A list has an element for each of its lines in a file. flags are the flags of all
// commands, with their exceptions. The notices name files and variables that are ignored.
func (f settingsFiles) Read(flags map[string]frame.Settings) (all []setting, notices []string, err error) {
	replace := func(by []setting) {
		all = slices.DeleteFunc(all, func(s setting) bool {
			return slices.ContainsFunc(by, func(b setting) bool { return b.Flag == s.Flag })
		})
		all = append(all, by...)
	}
	all = slices.Clone(f.Unset)
	for _, file := range f.Paths() {
		in, err := f.read(file, flags)
		named := file == os.Getenv(SettingsVariable)
		switch {
		// Under sudo, $HOME may be that of another user, whose files are closed to this one.
		case !named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
			continue
		case !named && errors.Is(err, errNotTrusted):
			notices = append(notices, err.Error())
			continue
		case err != nil:
			return nil, notices, err
		}
		replace(in)
	}
	if name := SettingsVariable; os.Getenv(name) != "" && privilege.SecureExecution() {
		notices = append(notices, notObeyed(name))
	}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		value, variable := os.Getenv(variableOf(flag)), variableOf(flag)
		switch {
		case value == "":
		case privilege.SecureExecution():
			notices = append(notices, notObeyed(variable))
		case flags[flag]&frame.GrantsRights != 0, flags[flag]&frame.ExposesData != 0 && privilege.Caller() != nil:
			return nil, notices, notSettable(flag, variable)
		default:
			replace([]setting{{Flag: flag, Value: value, From: variable}})
		}
	}
	return all, append(notices, misspeltVariables(flags)...), nil
}

// misspeltVariables returns notices about variables whose names are nearly those of flags.
func misspeltVariables(flags map[string]frame.Settings) (notices []string) {
	known := []string{strings.TrimPrefix(SettingsVariable, SettingPrefix)}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		known = append(known, strings.TrimPrefix(variableOf(flag), SettingPrefix))
	}
	for _, variable := range os.Environ() {
		variable, _, _ := strings.Cut(variable, "=")
		name, ours := strings.CutPrefix(variable, SettingPrefix)
		if meant := message.DidYouMean(SettingPrefix, name, known); ours && meant != "" && !slices.Contains(known, name) {
			notices = append(notices, message.Escape(variable)+" is ignored"+meant)
		}
	}
	return notices
}

// notObeyed returns the notice that a binary with capabilities that its caller lacks ignores a
// variable.
func notObeyed(variable string) string {
	return variable + " is ignored, because xdpcap has capabilities that its caller lacks: give flags instead"
}

// variableOf returns the environment variable for a flag.
func variableOf(flag string) string {
	return SettingPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// maxSettingsBytes is the upper bound for a file with settings.
const maxSettingsBytes = 1 << 20

// readText reads a regular file. /dev/null reads as empty. Any other device or a FIFO is refused,
// because it might never end or never begin.
func readText(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("settings: %w", err)
	case isNull(info):
		return nil, nil
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("settings: %s is no regular file: write them into one", path)
	}
	if err := checkTrust(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSettingsBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("settings: %w", err)
	case len(text) > maxSettingsBytes:
		return nil, fmt.Errorf("settings: %s has more than %d bytes: it is no file of settings", path, maxSettingsBytes)
	}
	return text, nil
}

// isNull reports whether a file is the device /dev/null, under any name.
func isNull(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && stat.Rdev == unix.Mkdev(1, 3)
}

// noFlag returns the error of a line with an unknown flag. For --count or c, as on the command
// line, it requests the long name.
func noFlag(from, name string, flags map[string]frame.Settings) error {
	if long, dashed := strings.CutPrefix(name, "--"); dashed {
		return fmt.Errorf("%s: %s: write %s, without --", from, name, long)
	}
	if strings.HasPrefix(name, "-") || len(name) == 1 {
		return fmt.Errorf("%s: %s: write the flag's long name, without --", from, name)
	}
	return fmt.Errorf("%s: no command has a flag --%s%s", from, name, message.DidYouMean("", name, slices.Sorted(maps.Keys(flags))))
}

// read reads lines of the form "flag = value". Empty lines and lines that begin with # are
// comments.
func (f settingsFiles) read(path string, flags map[string]frame.Settings) (all []setting, err error) {
	text, err := readText(path)
	if err != nil {
		return nil, err
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
		settings, known := flags[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: %q has no =: a line is FLAG = VALUE", from, line)
		case !known:
			return nil, noFlag(from, name, flags)
		case settings&frame.GrantsRights != 0 && !f.isOfMachine(path):
			return nil, notSettable(name, from)
		}
		all = append(all, setting{Flag: name, Value: value, From: from})
	}
	return all, nil
}

// errNotTrusted is the kind of error that another user than root can write to a file with settings.
var errNotTrusted = errors.New("somebody else could write to it")

// checkTrust returns an error if this process is root's, and another user can write to the file.
func checkTrust(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() != 0 || !ok {
		return nil
	}
	switch {
	case stat.Uid != 0:
		return fmt.Errorf("settings: root does not obey %s, which belongs to user id %d: %w", path, stat.Uid, errNotTrusted)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("settings: root does not obey %s, whose mode is %#o: %w", path, info.Mode().Perm(), errNotTrusted)
	}
	return nil
}

// notSettable returns the error that a flag was set where others than administrators could set it.
func notSettable(flag, from string) error {
	return fmt.Errorf("%s: --%s can be set on the command line and in a file in /etc alone", from, flag)
}

// isOfMachine reports whether a file is below /etc, where only administrators create files, or is
// the machine's.
func (f settingsFiles) isOfMachine(path string) bool {
	return path == f.Machine || strings.HasPrefix(filepath.Clean(path), "/etc/")
}

// calledAs returns the settings of a process that was called by this name. Programs that start
// tcpdump, such as ksniff and Retina, expect its defaults: both directions, and pcap. ksniff calls
// its copy of the binary static-tcpdump.
func calledAs(name string) []setting {
	base := filepath.Base(name)
	if !strings.HasSuffix(base, "tcpdump") {
		return nil
	}
	from := "the name " + base
	return []setting{
		{Flag: "direction", Value: "inout", From: from},
		{Flag: "format", Value: "pcap", From: from},
	}
}
