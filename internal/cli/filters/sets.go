package filters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

const setHelp = `set changes a set of --filter-set NAME=FILE while captures and other commands run that use it. From
the next packet on their filters decide by the changed set; a program that looks at a packet at that
moment decides by the set before or after. The file stays as it is: SIGHUP makes a capture read it
again, and the set is then as the file has it.

An element is an address, a network with the length of its prefix, or a port. add leaves what is
there already; delete fails after all others if an element is not there. list prints one in each
line, as the file has them.

Every process has sets of its own. add and delete change the set in all processes that have one of
this name, and print how many; list needs --pid if there are several. Pinned maps belong to others:
change them with bpftool map.`

const setExamples = `  xdpcap -i eth0 --filter-set blocked=blocked.txt src host in @blocked
  xdpcap set add blocked 192.0.2.7 2001:db8::7
  xdpcap set delete blocked 192.0.2.7
  xdpcap set list blocked`

// A setCommand has the arguments of the command set.
type setCommand struct {
	pid      int
	do       string
	name     string
	elements []set.Element
}

// NewSet returns the command set.
func NewSet() *cobra.Command {
	var s setCommand
	cmd := &cobra.Command{
		Use:       "set add|delete|list NAME [ELEMENT...]",
		Short:     "Change the sets of running filters",
		Long:      setHelp,
		Example:   setExamples,
		ValidArgs: []string{"add", "delete", "list"},
		Args:      func(_ *cobra.Command, args []string) error { return s.parse(args) },
		RunE:      func(cmd *cobra.Command, _ []string) error { return s.run(cmd.OutOrStdout()) },
	}
	frame.AddFlags(cmd, "Where", frame.Flag{Name: "pid", Value: &s.pid, Settings: frame.CommandLineOnly, Help: "only the set of the process with this `id`"})
	return cmd
}

// parse parses the arguments.
func (s *setCommand) parse(args []string) error {
	if len(args) < 2 {
		return errors.New("what to do with which set? add NAME ELEMENT..., delete NAME ELEMENT... or list NAME")
	}
	s.do, s.name = args[0], args[1]
	switch {
	case s.do == "list" && len(args) > 2:
		return errors.New("list takes only the name of a set")
	case s.do != "list" && s.do != "add" && s.do != "delete":
		return fmt.Errorf("%q: must be add, delete or list", s.do)
	case s.do != "list" && len(args) == 2:
		return fmt.Errorf("%s which elements? addresses, networks or ports", s.do)
	}
	for _, text := range args[2:] {
		e, err := set.ParseElement(text)
		if err != nil {
			return err
		}
		s.elements = append(s.elements, e)
	}
	return set.CheckName(s.name)
}

// run finds the sets of that name in all processes, and changes or prints them.
func (s *setCommand) run(out io.Writer) (err error) {
	if err := frame.ForOwnRights("set"); err != nil {
		return err
	}
	all, err := set.Find(s.name, s.pid)
	if set.IsRefused(err) {
		return fmt.Errorf("%w: start it as root, or with CAP_SYS_ADMIN", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range all {
			err = errors.Join(err, l.Close())
		}
	}()
	if len(all) == 0 {
		return fmt.Errorf("no running filter has a set %s%s: give one to a capture with --filter-set %[1]s=FILE", s.name, s.ofProcess())
	}
	if s.do == "list" {
		return s.list(out, all)
	}
	for _, l := range all { // before the first set is changed
		if err := l.Check(s.elements); err != nil {
			return err
		}
	}
	var errs []error
	for _, e := range s.elements {
		errs = append(errs, s.change(all, e))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(all) > 1 {
		_, err = fmt.Fprintf(out, "%d sets changed, of the processes %s\n", len(all), processes(all))
	}
	return err
}

func (s *setCommand) ofProcess() string {
	if s.pid == 0 {
		return ""
	}
	return fmt.Sprintf(" in the process %d", s.pid)
}

// change changes an element in all sets.
func (s *setCommand) change(all []*set.Live, e set.Element) error {
	var errs []error
	existed := false
	for _, l := range all {
		if s.do == "add" {
			errs = append(errs, l.Add(e))
			continue
		}
		had, err := l.Delete(e)
		existed = existed || had
		errs = append(errs, err)
	}
	if s.do == "delete" && !existed {
		errs = append(errs, fmt.Errorf("%v is not in the set %s", e, s.name))
	}
	return errors.Join(errs...)
}

func (s *setCommand) list(out io.Writer, all []*set.Live) error {
	if len(all) > 1 {
		return fmt.Errorf("the processes %s have sets %s: choose one with --pid", processes(all), s.name)
	}
	elements, err := all[0].Elements()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range elements {
		fmt.Fprintln(&b, e)
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// processes joins the ids of the processes that have the sets.
func processes(all []*set.Live) string {
	var names []string
	for _, l := range all {
		name := "?" // of another PID namespace
		if len(l.PIDs) > 0 {
			name = strings.Trim(fmt.Sprint(l.PIDs), "[]")
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
