package capture

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/filter/set"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// reloadOnHangup makes SIGHUP read the files of sets again, and with --reload-filter that of the
// filter, until the returned function is called. If there is no such file, SIGHUP ends the capture,
// as without the call.
func (r *captureRun) reloadOnHangup() (stop func()) {
	all := slices.DeleteFunc(slices.Clone(r.o.filter.Sets), func(s *set.Set) bool { return !s.CanReload() })
	if len(all) == 0 && !r.o.session.FilterChanges {
		return func() {}
	}
	for _, s := range all {
		r.noteUnreadable("set "+s.Name(), s.Path())
	}
	if r.o.session.FilterChanges {
		r.noteUnreadable("-F", r.o.filter.File)
	}
	expression := r.o.filter.Text
	return r.o.Process.ReloadOnHangup(func() {
		for _, s := range all {
			added, deleted, err := s.Reload()
			if err == nil {
				err = fmt.Errorf("set %s: read %s again: %d added, %d deleted", s.Name(), s.Path(), added, deleted)
			}
			r.notices.add(answer{err})
		}
		if r.o.session.FilterChanges {
			r.notices.add(answer{r.reloadFilter(&expression)})
		}
	})
}

// noteUnreadable adds a notice if the user that the process has become cannot read a file.
func (r *captureRun) noteUnreadable(what, path string) {
	f, err := os.Open(path)
	if err != nil {
		r.notices.add(fmt.Errorf("%s: SIGHUP will not read it again: %w: let the user that the capture has become read it and its directory, or choose the user with -Z", what, err))
		return
	}
	f.Close() // only read
}

// reloadFilter replaces the filter by the one that is in the file of -F now, and returns a notice
// about it. expression is the current filter.
func (r *captureRun) reloadFilter(expression *string) error {
	file := r.o.filter.File
	next, err := r.o.filter.Reread(r.o.Process.UntilSignal())
	switch {
	case err != nil:
		return fmt.Errorf("the filter stays as it was: %w", err)
	case next == *expression:
		return fmt.Errorf("read %s again: the filter is %s, as before", file, quoteFilter(next))
	}
	if err := r.session.SetFilter(next); err != nil {
		if name := (*net.DNSError)(nil); errors.As(err, &name) {
			err = fmt.Errorf("%w: write the address of %s, because a capture that runs looks up no hosts", err, name.Name)
		}
		return fmt.Errorf("the filter stays as it was: %w", err)
	}
	*expression = next
	return fmt.Errorf("read %s again: the filter is %s from now on", file, quoteFilter(next))
}

// quoteFilter formats a filter for a message.
func quoteFilter(expression string) string {
	if expression == "" {
		return "every packet"
	}
	return fmt.Sprintf("%q", expression)
}

// writeFilters prints the account of each filter, if there were several.
func (r *captureRun) writeFilters(accounts capture.Accounts) {
	if !r.o.session.FilterChanges {
		return
	}
	sources := r.session.Sources()
	own, past := r.divide(accounts, sources, r.accounts != nil)
	var filters []string // the oldest first
	sums := make(map[string]*capture.Account)
	order := slices.Clone(sources)
	slices.SortStableFunc(order, func(a, b capture.Source) int { return a.Came - b.Came })
	for _, src := range order {
		if sums[src.Filter] == nil {
			filters, sums[src.Filter] = append(filters, src.Filter), new(capture.Account)
		}
		sums[src.Filter].Add(own.Of(src.Place))
	}
	if len(filters) < 2 && past.Sources == 0 {
		return
	}
	for _, f := range filters {
		frame.Say(r.text, "filter %s: %s", quoteFilter(f), sums[f].Equation())
	}
	if past.Sources > 0 {
		frame.Say(r.text, "filters before those: %s", past.Equation())
	}
}

// directoriesAtHangup returns the directories of files that are read at SIGHUP.
func (o *Options) directoriesAtHangup() []string {
	all := o.filter.Sets.Directories()
	if o.session.FilterChanges {
		all = append(all, filepath.Dir(o.filter.File), "/etc") // which has the names of ports
	}
	return all
}
