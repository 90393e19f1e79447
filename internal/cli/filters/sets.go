package filters

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/set"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// SetFlag is the flag --filter-set.
func (o *Options) SetFlag() frame.Flag {
	return frame.Flag{Name: "filter-set", Value: (*frame.NameList)(&o.SetFiles),
		Help: "a set for the filter, `NAME=FILE`, as in host in @NAME: a file with an address, network or port in each line, or a pinned map"}
}

// Sets are the sets of --filter-set.
type Sets []*set.Set

// openSets creates the sets, each from a value of --filter-set. They are never closed.
func openSets(ctx context.Context, given []string) (all Sets, err error) {
	for _, text := range given {
		name, path, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--filter-set %s: must be NAME=FILE", text)
		}
		if slices.ContainsFunc(all, func(s *set.Set) bool { return s.Name() == name }) {
			return nil, fmt.Errorf("--filter-set %s: there are two sets of this name", name)
		}
		s, err := set.New(name, path, func(path string) (io.ReadCloser, error) { return frame.OpenWaiting(ctx, path) })
		if err != nil {
			return nil, fmt.Errorf("--filter-set %s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// Known returns the sets by their names, for package filter; nil = none.
func (s Sets) Known() map[string]filter.Set {
	if len(s) == 0 {
		return nil
	}
	all := make(map[string]filter.Set)
	for _, one := range s {
		all[one.Name()] = one
	}
	return all
}

// OnlyFiles refuses pinned maps, for filters that are applied outside of the kernel.
func (s Sets) OnlyFiles() error {
	for _, one := range s {
		if !one.IsFile() {
			return fmt.Errorf("--filter-set %s: %s is a pinned map, in which only filters in the kernel look up: give a file", one.Name(), one.Path())
		}
	}
	return nil
}

// Directories returns the directories of the files that can be read again. An editor may replace a
// file by another one of its name, so the sandbox must permit to read the directory.
func (s Sets) Directories() (all []string) {
	for _, one := range s {
		if one.CanReload() {
			all = append(all, filepath.Dir(one.Path()))
		}
	}
	return all
}
