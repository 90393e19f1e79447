package top

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"
)

// A screen draws lines on the terminal's alternate screen, and gets its keys.
type screen struct {
	tcell.Screen
	styles [good + 1]tcell.Style
	events chan event
	stop   chan struct{}
	done   chan struct{} // closed when no more events come
}

// An event is a key, or another size of the window; the zero event is the last: the terminal has
// gone.
type event struct {
	key     string // a character, or a word such as Enter
	resized bool
}

// ascii are the characters for a terminal that has no others.
var ascii = map[rune]rune{
	'▁': '.', '▂': '.', '▃': ':', '▄': ':', '▅': '|', '▆': '|', '▇': '#', '█': '#',
	'▏': ' ', '▎': ' ', '▍': '-', '▌': '-', '▋': '=', '▊': '=', '▉': '#', '…': '~',
}

// newScreen prepares the terminal of standard input and output. It is not changed before begin.
func newScreen(colored bool) (*screen, error) {
	if colored {
		os.Unsetenv("NO_COLOR") // for the library, where --color always overrides it
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

// begin takes the terminal. end gives it back as it was.
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
		case nil:
		case *tcell.EventKey:
			next.key = keyOf(e)
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

// end gives the terminal back as it was.
func (s *screen) end() {
	close(s.stop)
	s.Fini()
	<-s.done
}

// draw shows lines.
func (s *screen) draw(all []line) {
	s.Clear()
	for y, l := range all {
		x := 0
		for _, part := range l {
			for _, char := range part.text {
				if instead, ok := ascii[char]; ok && s.CharacterSet() != "UTF-8" {
					char = instead
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

// pause gives the terminal back, stops the process, and takes the terminal again once the process
// goes on. Where no shell could continue it, the kernel does not stop it.
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
	case <-continued: // another thread may have got the signal, and this one run on for a moment
	case <-time.After(200 * time.Millisecond):
	}
	err := s.Resume()
	s.Sync()
	return err
}
