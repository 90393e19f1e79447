package top

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/privilege"
)

// A view connects the model with the terminal and the counters.
type view struct {
	model
	screen  *screen
	sources *sources
	watched *watch // nil = the tables are shown
	choice  choice // of the watched packets
}

// run runs the command, from its flags to its totals.
func (o *Options) run() (err error) {
	if err := o.check(); err != nil {
		return err
	}
	ctx, err := o.process.Begin(frame.Guard{Interfaces: o.interfaces.Names()})
	if err != nil {
		return err
	}
	laterFile := newFile(time.Now())
	if _, err := os.Stat("."); err != nil {
		laterFile = "" // the key w will report that no file can be written here
	}
	if err := o.sandbox.Plan(laterFile); err != nil {
		return err
	}
	v := &view{}
	v.filter, v.typed = o.filter.Text, []rune(o.filter.Text)
	if v.sources, err = openSources(o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.sources.close()) }()
	if v.screen, err = newScreen(frame.Colored(o.color, o.process.Stdout.File)); err != nil {
		return err
	}
	if err := o.enterSandbox(); err != nil {
		return err
	}
	ctx, cancel := frame.ForDuration(ctx, o.duration)
	defer cancel()
	err = v.loop(ctx)
	var text bytes.Buffer
	page := frame.NewPage(o.process.Stdout.File, o.color)
	page.Writer = &text
	v.sources.writeTotals(page)
	if _, printing := o.process.Stdout.File.Write(text.Bytes()); err == nil {
		err = frame.ExplainPrint(printing)
	}
	return err
}

// enterSandbox gives up all rights but three: to attach again, for another filter or the packets of
// a row; to read the names of the kernel's functions; and to write files in the current directory.
func (o *Options) enterSandbox() error {
	if box := o.sandbox.Box(); box != nil {
		box.Work, box.Readable = []privilege.Work{privilege.BPF, privilege.Files}, frame.KernelFiles
		o.sandbox.KeepAttaching()
		box.Keep = append(box.Keep, unix.CAP_SYSLOG) // for the names of functions
	}
	return o.sandbox.Enter(func(err error) { frame.Say(o.process.Stderr, "%v", err) })
}

// loop shows the counters until a key or the context ends it, and then restores the terminal.
func (v *view) loop(ctx context.Context) (err error) {
	if err := v.screen.begin(); err != nil {
		return err
	}
	defer v.screen.end()
	defer func() { err = errors.Join(err, v.unwatch()) }()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	v.width, v.height = v.screen.Size()
	if err := v.tick(); err != nil {
		return err
	}
	redraw := time.NewTicker(200 * time.Millisecond) // of watched packets
	defer redraw.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
			if err := v.tick(); err != nil {
				return err
			}
		case <-redraw.C:
			if v.watched == nil || v.paused {
				continue
			}
		case e := <-v.screen.events:
			leaving, err := v.handle(e)
			if leaving || err != nil {
				return err
			}
		}
		v.draw()
	}
}

func (v *view) draw() {
	if v.watched != nil && (!v.paused || v.watch == nil) {
		v.watch = v.watched.view()
	}
	v.screen.draw(v.lines())
}

// tick follows interfaces and programs, and reads the counters.
func (v *view) tick() error {
	notice, err := v.sources.follow()
	if err != nil {
		return err
	}
	if notice != "" {
		v.message = notice
	}
	r, err := v.sources.read()
	if err != nil {
		return err
	}
	v.update(r, v.sources.where())
	return nil
}

// handle handles an event of the terminal. leaving means that the command is to end.
func (v *view) handle(e event) (leaving bool, err error) {
	switch {
	case e.resized:
		v.screen.Sync()
		v.width, v.height = v.screen.Size()
		return false, nil
	case e.key != "":
		return v.act(v.press(e.key))
	}
	return true, nil // the terminal has gone
}

// act does the part of a key's effect outside of the model.
func (v *view) act(a action) (leaving bool, err error) {
	switch a {
	case leave:
		return true, nil
	case pause:
		err = v.screen.pause()
	case refilter:
		err = v.refilter(string(v.typed))
	case watchRow, writeRow:
		r := v.selected()
		path := ""
		if a == writeRow {
			path = newFile(time.Now())
		}
		v.beginWatch(r.title(), r.shows, path)
	case writeWatched:
		if v.watched.path == "" { // else they are written already
			v.beginWatch(v.watched.title, v.choice, newFile(time.Now()))
		}
	case unwatch:
		if err := v.unwatch(); err != nil {
			v.message = err.Error()
		}
	}
	if timed := v.kind == runTimes; timed != v.sources.timed {
		v.sources.measure(timed)
	}
	return false, err
}

// refilter counts the packets that match another filter. The error is final.
func (v *view) refilter(text string) error {
	refused, err := v.sources.refilter(text)
	if refused != nil {
		v.message = refused.Error()
		return err
	}
	v.filter = text
	v.resetTrends()
	return err
}

// beginWatch shows the packets of a choice as they come, and writes them to a file; "" = to none.
func (v *view) beginWatch(title string, c choice, path string) {
	var before []string
	if w := v.watched; w != nil {
		v.unwatch()
		before = w.lines
	}
	options, err := v.sources.watchOptions(c)
	if err == nil {
		v.watched, err = openWatch(title, options, path, before)
	}
	if err != nil {
		v.message = frame.WithRemedy(err.Error(), err)
		return
	}
	v.choice, v.paused = c, false
}

// unwatch ends the capture of a row, and shows the tables again.
func (v *view) unwatch() (err error) {
	if v.watched != nil {
		err = v.watched.close()
		if v.watched.path != "" && err == nil {
			v.message = v.watched.view().state
		}
	}
	v.watched, v.watch = nil, nil
	return err
}
