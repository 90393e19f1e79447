package meter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A place is an interface whose program matters to Tracepoints.
type place struct {
	ifi   xdp.Interface
	watch *xdp.HookWatch
	runs  bool // it ran the program that is asked for
}

// look notes which program the interface runs now, and tells whether it is another one than before.
func (p *place) look() (changed bool, err error) {
	now, err := look(p.watch, p.ifi)
	if err != nil {
		return false, err
	}
	var before uint32
	if len(p.ifi.Programs) > 0 {
		before = p.ifi.Programs[0].ID
	}
	if now.Program == before {
		return false, nil
	}
	name := p.ifi.Name
	p.ifi = now.Of(p.ifi)
	p.ifi.Name = name
	return true, nil
}

// findProgram looks for the program that is asked for: on the interface, and then everywhere.
func findProgram(o TracepointOptions) (xdp.Program, error) {
	if o.Interface != nil {
		if p, err := xdp.OneProgram(*o.Interface, o.Program); err == nil && p.Name == o.Program {
			return p, nil
		}
	}
	return xdp.FindProgram(o.Program)
}

// findPlaces looks for the interface that is asked for, or for those that run the program that is
// asked for.
func (t *Tracepoints) findPlaces(o TracepointOptions) error {
	var interfaces []xdp.Interface
	if o.Interface != nil {
		interfaces = []xdp.Interface{*o.Interface}
	} else if t.selector != "" {
		all, err := xdp.Interfaces()
		if err != nil {
			return err
		}
		interfaces = all
	}
	for _, ifi := range interfaces {
		p := &place{ifi: ifi}
		if t.selector != "" {
			p.runs, _ = runsOn(ifi, t.program)
		}
		if !p.runs && !t.ofInterface {
			continue
		}
		var err error
		if p.watch, err = xdp.WatchHook(ifi.Index); err != nil {
			return err
		}
		t.places = append(t.places, p)
	}
	return nil
}

// Follow looks at the interface and the program that are asked for, and goes on with the program of
// the same name that has taken the other's place. It makes room in the table of cases, too. See
// [Actions.Follow].
func (t *Tracepoints) Follow() (notice string, err error) {
	if err := t.forget(time.Now()); err != nil {
		return "", err
	}
	changed, err := t.look()
	if err != nil {
		return "", err
	}
	if t.selector == "" {
		if changed {
			err = t.allowMaps()
		}
		return "", err
	}
	next, err := t.findAgain()
	if err != nil {
		return "", xdp.Kind(ErrNotCounting, "%v does not run any more: %w", t.program, err)
	}
	if next.ID == t.program.ID {
		return "", nil
	}
	if err := t.coll.Variables[tracepointsVarOnlyProgram].Set(next.ID); err != nil {
		return "", fmt.Errorf("set %s: %w", tracepointsVarOnlyProgram, err)
	}
	notice = fmt.Sprintf("%v has taken the place of %v: its events are counted from now on", next, t.program)
	t.program = next
	return notice, t.allowMaps()
}

// Capabilities returns those, by their numbers in capabilities(7), that Follow takes: to find
// another program and its maps by their ids. Where all events are counted it takes none.
func (t *Tracepoints) Capabilities() []int {
	if t.selector == "" && !t.ofInterface {
		return nil
	}
	return []int{unix.CAP_SYS_ADMIN}
}

// look looks at all places, and forgets interfaces that have gone.
func (t *Tracepoints) look() (changed bool, err error) {
	var gone error
	t.places = slices.DeleteFunc(t.places, func(p *place) bool {
		other, lookErr := p.look()
		changed = changed || other
		if !errors.Is(lookErr, xdp.ErrGone) {
			err = errors.Join(err, lookErr)
			return false
		}
		gone, changed = lookErr, true
		p.watch.Close()
		return true
	})
	if t.ofInterface {
		err = errors.Join(err, gone)
	}
	return changed, err
}

// findAgain returns the program that is asked for as it is now. Where it ran on interfaces, that is
// the one which runs there; otherwise it is enough that it is loaded.
func (t *Tracepoints) findAgain() (next xdp.Program, err error) {
	ran := false
	for _, p := range t.places {
		if !p.runs {
			continue
		}
		ran = true
		if runs, err := runsOn(p.ifi, t.program); runs || err != nil {
			return t.program, err
		}
	}
	if !ran {
		_, err := xdp.FindProgram(strconv.FormatUint(uint64(t.program.ID), 10))
		if errors.Is(err, xdp.ErrNoSuchProgram) {
			return xdp.FindProgram(t.selector)
		}
		return t.program, nil
	}
	err = errors.New("a program has another id when it is loaded again")
	for _, p := range t.places {
		found, chooseErr := xdp.OneProgram(p.ifi, t.selector)
		if chooseErr == nil && found.ID != t.program.ID { // an id is chosen whether or not its program runs here
			return found, nil
		}
		if chooseErr != nil {
			err = chooseErr
		}
	}
	return xdp.Program{}, err
}

// allowMaps stores the maps of the chosen programs in program_maps, by which events of cpumaps are
// recognized: those of the program that is asked for, or of those that run on the interface.
func (t *Tracepoints) allowMaps() error {
	if t.selector != "" {
		return t.allowMapsOf(t.program.ID)
	}
	for _, p := range t.places {
		for _, program := range p.ifi.Programs {
			if err := t.allowMapsOf(program.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tracepoints) allowMapsOf(id uint32) error {
	prog, err := xdp.OpenProgram(id)
	if errors.Is(err, os.ErrNotExist) { // Follow will find the next one
		return nil
	}
	if err != nil {
		return fmt.Errorf("open XDP program %d: %w", id, err)
	}
	info, err := prog.Info()
	prog.Close()
	if err != nil {
		return fmt.Errorf("ask for the maps of XDP program %d: %w", id, err)
	}
	maps, _ := info.MapIDs()
	for _, m := range maps {
		if err := t.coll.Maps[tracepointsMapProgramMaps].Put(uint32(m), id); err != nil {
			return fmt.Errorf("note map %d of XDP program %d: %w", m, id, err)
		}
	}
	return nil
}
