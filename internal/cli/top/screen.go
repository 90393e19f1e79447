package top

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"
)

// A screen draws lines on the terminal's alternate screen, and receives its keys.
type screen struct {
	tcell.Screen
	styles [good + 1]tcell.Style // by style; good is the last one
	events chan event
	stop   chan struct{}
	done   chan struct{} // closed after the last event
}

// An event is a key, or a new size of the window. The zero event is the last one: the terminal has
// gone.
type event struct {
	key     string // a character, or a word such as Enter
	resized bool
}

// ascii replaces characters on a terminal without UTF-8.
var ascii = map[rune]rune{
	'▁': '.', '▂': '.', '▃': ':', '▄': ':', '▅': '|', '▆': '|', '▇': '#', '█': '#',
	'▏': ' ', '▎': ' ', '▍': '-', '▌': '-', '▋': '=', '▊': '=', '▉': '#', '…': '~',
}

// newScreen opens the terminal of standard input and output. It does not change the terminal; begin
// does.
func newScreen(colored bool) (*screen, error) {
	if colored {
		os.Unsetenv("NO_COLOR") // with it tcell shows no colors, even with --color=always
	}
	tty, err := tcell.NewStdIoTty()
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	s := &screen{events: make(chan event, 16), stop: make(chan struct{}), done: make(chan struct{})}
	if s.Screen, err = tcell.NewTerminfoScreenFromTty(tty); err != nil {
		return nil, fmt.Errorf("open the terminal: %w: set TERM to what it is, such as xterm", err)
	}
	s.styles[bold] = s.styles[bold].Bold(true)
	s.styles[reverse] = s.styles[reverse].Reverse(true)
	s.styles[faint] = s.styles[faint].Dim(true)
	s.styles[bad] = s.styles[bad].Bold(true)
	if colored {
		s.styles[bad] = tcell.StyleDefault.Foreground(tcell.ColorRed)
		s.styles[good] = tcell.StyleDefault.Foreground(tcell.ColorGreen)
	}
	return s, nil
}

// begin switches to the alternate screen. end restores the terminal.
func (s *screen) begin() error {
	if err := s.Init(); err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	go s.listen()
	return nil
}

// listen passes on events until the end.
func (s *screen) listen() {
	defer close(s.done)
	for {
		var next event
		switch e := s.PollEvent().(type) {
		case nil: // the end: an event without values
		case *tcell.EventKey:
			if next.key = keyOf(e); next.key == "" {
				continue // a key without a name has no effect
			}
		case *tcell.EventResize:
			next.resized = true
		default:
			continue
		}
		select {
		case s.events <- next:
		case <-s.stop:
			return
		}
		if next == (event{}) {
			return
		}
	}
}

// end restores the terminal.
func (s *screen) end() {
	close(s.stop)
	s.Fini()
	<-s.done
}

func (s *screen) draw(all []line) {
	s.Clear()
	for y, l := range all {
		x := 0
		for _, part := range l {
			for _, char := range part.text {
				if plain, ok := ascii[char]; ok && s.CharacterSet() != "UTF-8" {
					char = plain
				}
				s.SetContent(x, y, char, nil, s.styles[part.style])
				x++
			}
		}
	}
	s.Show()
}

// keyOf is the name of a key: a character, or a word such as Enter.
func keyOf(e *tcell.EventKey) string {
	if e.Key() == tcell.KeyRune {
		return string(e.Rune())
	}
	return tcell.KeyNames[e.Key()]
}

// pause restores the terminal, stops the process, and switches back when the process continues. The
// kernel ignores SIGTSTP in an orphaned process group, which no shell could continue: then no
// SIGCONT comes, and pause switches back after 200 ms.
func (s *screen) pause() error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if err := s.Suspend(); err != nil {
		return err
	}
	if err := unix.Kill(unix.Getpid(), unix.SIGTSTP); err != nil {
		return err
	}
	select {
	case <-continued: // another thread may take SIGTSTP, so that this one goes on for a moment
	case <-time.After(200 * time.Millisecond):
	}
	err := s.Resume()
	s.Sync()
	return err
}
