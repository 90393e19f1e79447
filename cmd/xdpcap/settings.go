package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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

// maxSettings is how many bytes a file of settings may have: far more than all flags take.
const maxSettings = 1 << 20

// readSettingsText reads a regular file. /dev/null is an empty one; any other device, and a fifo,
// could go on for ever or never begin.
func readSettingsText(path string) ([]byte, error) {
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
	text, err := io.ReadAll(io.LimitReader(file, maxSettings+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("settings: %w", err)
	case len(text) > maxSettings:
		return nil, fmt.Errorf("settings: %s has more than %d bytes: it is no file of settings", path, maxSettings)
	}
	return text, nil
}

// isNull tells whether a file is /dev/null, by whichever name.
func isNull(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && stat.Rdev == unix.Mkdev(1, 3)
}

// readSettingsFile reads lines of the form "flag = value". Empty lines, and those that begin with
// #, are comments.
func readSettingsFile(path string, flags []string) (all []setting, err error) {
	text, err := readSettingsText(path)
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
