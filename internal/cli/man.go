package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// newManual returns the command man, which formats the help of commands as manual pages.
func newManual() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man [command]",
		Short: "Print a manual page, or write all of them",
		Long: "man prints the manual page of xdpcap, or of one of its commands, in the form that man(1) reads.\n" +
			"--dir writes all pages below a directory, in man7 and man8, where man -M finds them.",
		Example: "  xdpcap man | man -l -\n  xdpcap man stats | man -l -\n  xdpcap man --dir /usr/local/share/man",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := manual(cmd.Root())
			if dir != "" {
				return writePages(dir, pages)
			}
			name := strings.Join(append([]string{cmd.Root().Name()}, args...), "-")
			i := slices.IndexFunc(pages, func(p page) bool { return p.name == name })
			if i < 0 {
				return frame.UnknownCommand(cmd, args[0])
			}
			_, err := cmd.OutOrStdout().Write(pages[i].text())
			return frame.ExplainPrint(err)
		},
	}
	frame.AddFlags(cmd, "Output", frame.Flag{Name: "dir", Value: (*frame.Name)(&dir), Help: "write all pages below this `directory`"})
	cmd.MarkFlagDirname("dir")
	return cmd
}

// A page is a manual page with the help of a command or topic.
type page struct {
	cmd     *cobra.Command
	name    string // "xdpcap-stats"
	section int    // 8 for commands, 7 for topics
	all     []page // of the manual
}

// manual returns a page for each command and topic, xdpcap's own first.
func manual(root *cobra.Command) (pages []page) {
	pages = []page{{cmd: root, name: root.Name(), section: 8}}
	for _, c := range root.Commands() {
		p := page{cmd: c, name: root.Name() + "-" + c.Name(), section: 8}
		switch {
		case c.IsAdditionalHelpTopicCommand():
			p.section = 7
		case c.Hidden || c.Name() == "help" || c.Name() == "completion":
			continue
		}
		pages = append(pages, p)
	}
	for i := range pages {
		pages[i].all = pages
	}
	return pages
}

func writePages(dir string, pages []page) error {
	for _, p := range pages {
		file := filepath.Join(dir, fmt.Sprintf("man%d", p.section), fmt.Sprintf("%s.%d", p.name, p.section))
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, p.text(), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write a manual page: %w", err)
		}
	}
	return nil
}

// text returns the page in the language of man(7).
func (p page) text() []byte {
	var r roff
	r.macro("TH", strings.ToUpper(p.name), fmt.Sprint(p.section), "", "xdpcap "+frame.Version(), "xdpcap manual")
	r.WriteString(".ad l\n.nh\n") // neither justify nor hyphenate lines: both garble words that people type
	r.macro("SH", "NAME")
	r.line(p.name + " - " + strings.ToLower(p.cmd.Short[:1]) + p.cmd.Short[1:])
	if p.cmd.Runnable() {
		r.macro("SH", "SYNOPSIS")
		r.line(p.cmd.UseLine())
	}
	r.macro("SH", "DESCRIPTION")
	r.prose(p.cmd.Long)
	if !p.cmd.HasParent() {
		p.writeCommands(&r)
	}
	p.writeFlags(&r)
	if !p.cmd.HasParent() {
		writePeerFlags(&r)
	}
	if p.cmd.Runnable() {
		about := notes
		if !p.cmd.HasParent() {
			about = slices.Concat([]frame.Note{capture.SentNote}, about)
		}
		for _, n := range about {
			r.macro("SH", strings.ToUpper(n.Title))
			r.line(n.Text)
		}
		r.macro("SH", "EXAMPLES")
		r.prose(p.cmd.Example)
	}
	r.macro("SH", "SEE ALSO")
	r.line(p.seeAlso())
	return r.Bytes()
}

func (p page) writeCommands(r *roff) {
	r.macro("SH", "COMMANDS")
	for _, other := range p.all[1:] {
		r.macro("TP")
		r.line(fmt.Sprintf("%s(%d)", other.name, other.section))
		r.line(other.cmd.Short + ".")
	}
}

func (p page) writeFlags(r *roff) {
	groups := frame.FlagGroups(p.cmd.LocalFlags())
	if !p.cmd.Runnable() || len(groups) == 0 {
		return
	}
	r.macro("SH", "OPTIONS")
	for _, g := range groups {
		r.macro("SS", g.Title)
		g.Flags.VisitAll(func(f *pflag.Flag) {
			value, usage := pflag.UnquoteUsage(f)
			if f.Value.Type() == "count" {
				value = ""
			}
			if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
				usage += " (default " + f.DefValue + ")"
			}
			r.macro("TP")
			r.flag(f.Shorthand, f.Name, value, f.NoOptDefVal != "")
			r.line(usage)
		})
	}
}

// writePeerFlags lists the flags of other tools.
func writePeerFlags(r *roff) {
	r.macro("SH", strings.ToUpper(frame.PeerFlagsNote().Title))
	r.line("These are known, so that habits and scripts find what they need. Where the tools differ, a letter has tcpdump's meaning.")
	for _, accepted := range []bool{true, false} {
		r.macro("SS", map[bool]string{true: "Accepted, because they change nothing", false: "Refused, and what to do instead"}[accepted])
		for _, f := range frame.PeerFlags(accepted) {
			r.macro("TP")
			r.flag(f.Letter, f.Name, f.Value.(pflag.Value).Type(), false)
			r.line(f.Help)
		}
	}
}

// seeAlso names all other pages on xdpcap's own page, and only xdpcap's own on the others.
func (p page) seeAlso() string {
	also := []string{"pcap-filter(7)", "tcpdump(8)", "wireshark(1)", "bpftool(8)"}
	if p.cmd.HasParent() {
		return strings.Join(append([]string{"xdpcap(8)"}, also...), ", ")
	}
	var names []string
	for _, other := range p.all[1:] {
		names = append(names, fmt.Sprintf("%s(%d)", other.name, other.section))
	}
	return strings.Join(append(names, also...), ", ")
}
