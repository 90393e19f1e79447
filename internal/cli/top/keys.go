package top

// An action is the part of a key's effect outside of the model.
type action int

const (
	noAction action = iota
	leave
	refilter     // count what model.typed matches
	watchRow     // show the packets of the selected row
	writeRow     // the same, and write them to a file
	writeWatched // write the packets that are shown
	unwatch      // show the tables again
	pause        // stop the process, as Ctrl-Z does
)

// kindKeys are the keys of the tables with their names in the second line. Two tables share a key,
// which switches between them.
var kindKeys = [kinds]struct{ key, name string }{
	{"f", "[f]lows"}, {"v", "[v]erdicts"}, {"r", "p[r]otocols"}, {"s", "[s]izes"}, {"d", "[d]rops"}, {"d", ""}, {"l", "[l]atency"}, {"i", "[i]nterfaces"},
}

// keyHelp is the text of the key ?: keys and their effects.
var keyHelp = [][2]string{
	{"f v r s d l i", "the tables of the second line"},
	{"d, and d again", "losses by their reason, and the flows that lose most"},
	{"Tab, left, right", "the next one, the one before"},
	{"up, down, PgUp, PgDn", "choose a row; Home: always the first one"},
	{"o", "the next order: bit/s, packets/s, bytes, packets"},
	{"p, space", "pause the screen, while counting goes on"},
	{"/", "type in a filter, as in tcpdump; without words: all"},
	{"Enter", "show the packets of the row as they come; Esc: back"},
	{"w", "write them to a file from now on"},
	{"?", "these keys; any key: back"},
	{"q, Ctrl-C", "leave, and print the totals"},
}

// press applies a key to the model, and returns the rest of its effect. A key is a character, or
// has a name such as Enter.
func (m *model) press(key string) action {
	m.message = ""
	switch {
	case key == "Ctrl-C":
		return leave
	case key == "Ctrl-Z":
		return pause
	case m.typing:
		return m.typeKey(key)
	case m.help:
		m.help = false
		return noAction
	case key == "q":
		return leave
	case key == "?":
		m.help = true
		return noAction
	case key == "p" || key == " ":
		m.paused = !m.paused
		return noAction
	case m.watch != nil:
		return m.pressWatching(key)
	}
	return m.pressTable(key)
}

func (m *model) pressWatching(key string) action {
	switch key {
	case "Esc", "Enter", "Left", "Backspace", "Backspace2":
		return unwatch
	case "w":
		return writeWatched
	}
	return noAction
}

func (m *model) pressTable(key string) action {
	page := max(1, m.height-5) // the rows of a table, but one
	for k, tab := range kindKeys {
		if key == tab.key && m.kind != kind(k) {
			m.kind = kind(k)
			return noAction
		}
	}
	switch key {
	case "Tab", "Right":
		m.kind = (m.kind + 1) % kinds
	case "Backtab", "Left":
		m.kind = (m.kind + kinds - 1) % kinds
	case "Up", "k":
		m.move(-1)
	case "Down", "j":
		m.move(1)
	case "PgUp":
		m.move(-page)
	case "PgDn":
		m.move(page)
	case "Home":
		m.move(-mostRows)
	case "End":
		m.move(mostRows)
	case "o":
		m.order = (m.order + 1) % orders
		m.arrange()
	case "/":
		m.typing = true
	case "Enter", "w":
		if m.selected() == nil {
			m.message = "there is no row whose packets could be shown"
			return noAction
		}
		if key == "w" {
			return writeRow
		}
		return watchRow
	}
	return noAction
}

// typeKey applies a key to the filter that is being typed in.
func (m *model) typeKey(key string) action {
	runes := []rune(key)
	switch {
	case key == "Enter":
		m.typing = false
		return refilter
	case key == "Esc":
		m.typing, m.typed = false, []rune(m.filter)
	case key == "Ctrl-U":
		m.typed = nil
	case key == "Backspace" || key == "Backspace2":
		m.typed = m.typed[:max(0, len(m.typed)-1)]
	case len(runes) == 1:
		m.typed = append(m.typed, runes...)
	}
	return noAction
}
