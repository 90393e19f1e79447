package meter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A place is an interface whose program Tracepoints watches: the requested interface, or one that
// runs the requested program.
type place struct {
	ifi         xdp.Interface
	watch       *xdp.HookWatch
	isRequested bool // it ran the requested program at Open
}

// refresh notes which program the interface runs now, and reports whether that has changed.
func (p *place) refresh() (changed bool, err error) {
	now, err := readHook(p.watch, p.ifi)
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

// findProgram finds the requested program: on the interface, then everywhere.
func findProgram(o TracepointOptions) (xdp.Program, error) {
	if o.Interface != nil {
		if p, err := xdp.OneProgram(*o.Interface, o.Program); err == nil && p.Name == o.Program {
			return p, nil
		}
	}
	return xdp.FindProgram(o.Program)
}

// findPlaces finds the requested interface, or the interfaces that run the requested program.
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
			p.isRequested, _ = runsOn(ifi, t.program)
		}
		if !p.isRequested && !t.ofInterface {
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

// Follow checks the requested interface and program. If another program of the same name has
// replaced the counted one, it counts the events of that one from now on. It also evicts cases
// without recent events. See [Actions.Follow].
func (t *Tracepoints) Follow() (notice string, err error) {
	if err := t.evictQuiet(time.Now()); err != nil {
		return "", err
	}
	changed, err := t.refreshPlaces()
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
		return "", message.Errorf(ErrNotCounting, "%v does not run any more: %w", t.program, err)
	}
	if next.ID == t.program.ID {
		return "", nil
	}
	if err := t.coll.Variables[tracepointsVarOnlyProgram].Set(next.ID); err != nil {
		return "", fmt.Errorf("set %s: %w", tracepointsVarOnlyProgram, err)
	}
	notice = fmt.Sprintf("%v has replaced %v: now counting its events", next, t.program)
	t.program = next
	return notice, t.allowMaps()
}

// Capabilities returns the capabilities, by number (capabilities(7)), that Follow needs to find
// another program and its maps by their ids. It needs no capabilities if all events are counted.
func (t *Tracepoints) Capabilities() []int {
	if t.selector == "" && !t.ofInterface {
		return nil
	}
	return []int{unix.CAP_SYS_ADMIN}
}

// refreshPlaces refreshes all places, and removes those whose interfaces are gone. It is an error
// if the requested interface is gone.
func (t *Tracepoints) refreshPlaces() (changed bool, err error) {
	var gone error
	t.places = slices.DeleteFunc(t.places, func(p *place) bool {
		placeChanged, placeErr := p.refresh()
		changed = changed || placeChanged
		if !errors.Is(placeErr, xdp.ErrGone) {
			err = errors.Join(err, placeErr)
			return false
		}
		gone, changed = placeErr, true
		p.watch.Close()
		return true
	})
	if t.ofInterface {
		err = errors.Join(err, gone)
	}
	return changed, err
}

// findAgain returns the requested program as it is now. If it ran on interfaces, it must run there
// again; otherwise it only needs to be loaded.
func (t *Tracepoints) findAgain() (next xdp.Program, err error) {
	ranOnInterface := false
	for _, p := range t.places {
		if !p.isRequested {
			continue
		}
		ranOnInterface = true
		if runs, err := runsOn(p.ifi, t.program); runs || err != nil {
			return t.program, err
		}
	}
	if !ranOnInterface {
		_, err := xdp.FindProgram(strconv.FormatUint(uint64(t.program.ID), 10))
		if errors.Is(err, xdp.ErrNoSuchProgram) {
			return xdp.FindProgram(t.selector)
		}
		return t.program, nil
	}
	err = errors.New("a program gets a new id when it is loaded again")
	for _, p := range t.places {
		found, chooseErr := xdp.OneProgram(p.ifi, t.selector)
		if chooseErr == nil && found.ID != t.program.ID { // a selector that is an id finds the former program
			return found, nil
		}
		if chooseErr != nil {
			err = chooseErr
		}
	}
	return xdp.Program{}, err
}

// allowMaps fills program_maps, by which the tracing programs recognize events of cpumaps, with the
// maps of the requested program or, without one, of the programs on the interface.
func (t *Tracepoints) allowMaps() error {
	if t.selector != "" {
		return t.allowMapsOf(t.program.ID)
	}
	for _, p := range t.places {
		running, err := xdp.Running(p.ifi)
		if err != nil {
			return err
		}
		for _, program := range running {
			if err := t.allowMapsOf(program.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tracepoints) allowMapsOf(id uint32) error {
	prog, err := xdp.OpenProgram(id)
	if errors.Is(err, os.ErrNotExist) { // Follow will find its successor
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
