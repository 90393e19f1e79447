package cli

import (
	"bytes"
	"fmt"
	"strings"
)

// A roff is text in the language of man(7).
type roff struct{ bytes.Buffer }

// escaped escapes the characters that roff would print as others: a plain - becomes a hyphen, which
// is not the character that people type.
var escaped = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

func (r *roff) macro(name string, arguments ...string) {
	r.WriteString("." + name)
	for _, a := range arguments {
		fmt.Fprintf(r, " \"%s\"", strings.ReplaceAll(escaped.Replace(a), `"`, `\(dq`))
	}
	r.WriteByte('\n')
}

// line writes a line of text, even if it begins with a dot, as macros do.
func (r *roff) line(text string) {
	text = escaped.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	r.WriteString(text + "\n")
}

// flag writes the forms of a flag: -c, --packet-count packets. optional is true if the value may be
// omitted.
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

// prose writes paragraphs. Indented lines are written verbatim, between the macros EX and EE.
func (r *roff) prose(text string) {
	inExample := false
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		isExample := strings.HasPrefix(line, "  ")
		switch {
		case isExample && !inExample:
			r.macro("EX")
		case inExample && !isExample:
			r.macro("EE")
		}
		inExample = isExample
		if line == "" {
			r.macro("PP")
		} else {
			r.line(line)
		}
	}
	if inExample {
		r.macro("EE")
	}
}
