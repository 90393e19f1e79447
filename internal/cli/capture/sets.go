package capture

import (
	"fmt"
	"os"
	"slices"

	"github.com/xdpcap/xdpcap/filter/set"
)

// reloadOnHangup lets SIGHUP read the files of the sets again, until the returned function is
// called. It changes nothing where no set can be read again.
func (r *captureRun) reloadOnHangup() (stop func()) {
	all := slices.DeleteFunc(slices.Clone(r.o.filter.Sets), func(s *set.Set) bool { return !s.CanReload() })
	if len(all) == 0 {
		return func() {}
	}
	for _, s := range all {
		f, err := os.Open(s.Path()) // as the user that the process has become
		if err != nil {
			r.notices.add(fmt.Errorf("set %s: SIGHUP will not read it again: %w", s.Name(), err))
			continue
		}
		f.Close() // only read
	}
	return r.o.Process.ReloadOnHangup(func() {
		for _, s := range all {
			added, deleted, err := s.Reload()
			if err == nil {
				err = fmt.Errorf("set %s: read %s again: %d added, %d deleted", s.Name(), s.Path(), added, deleted)
			}
			r.notices.add(err)
		}
	})
}
