package cli

import (
	"bytes"
	"fmt"
	"strings"
)

// A roff is text in the language of man(7).
type roff struct{ bytes.Buffer }

// escaped keeps characters unchanged in roff, which would turn a hyphen into another character than
// people type.
var escaped = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

func (r *roff) macro(name string, arguments ...string) {
	r.WriteString("." + name)
	for _, a := range arguments {
		fmt.Fprintf(r, " \"%s\"", strings.ReplaceAll(escaped.Replace(a), `"`, `\(dq`))
	}
	r.WriteByte('\n')
}

// line writes a line of text. A dot at its beginning would be a macro.
func (r *roff) line(text string) {
	text = escaped.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	r.WriteString(text + "\n")
}

// flag writes how a flag is given.
func (r *roff) flag(letter, name, value string, optional bool) {
	var forms []string
	if letter != "" {
		forms = append(forms, `\fB`+escaped.Replace("-"+letter)+`\fR`)
	}
	if name != letter {
		forms = append(forms, `\fB`+escaped.Replace("--"+name)+`\fR`)
	}
	text := strings.Join(forms, ", ")
	switch {
	case value == "":
	case optional:
		text += `[=\fI` + escaped.Replace(value) + `\fR]`
	default:
		text += ` \fI` + escaped.Replace(value) + `\fR`
	}
	r.WriteString(text + "\n")
}

// prose writes paragraphs. Indented lines stay as they are.
func (r *roff) prose(text string) {
	verbatim := false
	set := func(on bool) {
		if on != verbatim {
			r.macro(map[bool]string{true: "EX", false: "EE"}[on])
		}
		verbatim = on
	}
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			set(false)
			r.macro("PP")
		case strings.HasPrefix(line, "  "):
			set(true)
			r.line(line)
		default:
			set(false)
			r.line(line)
		}
	}
	set(false)
}
