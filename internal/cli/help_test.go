package cli

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// helpOf is what xdpcap prints with these arguments.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := NewRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// checkWidth expects that a text fits a terminal.
func checkWidth(t *testing.T, text string, columns int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The expressions that the help of filters shows can be compiled.
func TestHelpFilter(t *testing.T) {
	t.Parallel()
	text := helpOf(t, "help", "filter")
	checkWidth(t, text, 80)
	shown := regexp.MustCompile(`(?m)^  (\S.*?)   `).FindAllStringSubmatch(text, -1)
	for _, m := range shown {
		if _, err := filter.CompileRaw(m[1], filter.Options{}); err != nil && !errors.Is(err, filter.ErrNoSet) {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	if len(shown) < 8 {
		t.Errorf("it shows %q:\n%s", shown, text)
	}
}

// --help shows each flag of a command in a group, and no flag that takes no value as if it took
// one. -h fits a screen of 80 columns and 24 lines, and names only existing flags and commands.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := NewRoot()
	var names []string
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.Runnable() || cmd.Name() == "completion" {
			continue
		}
		if cmd != root && !cmd.Hidden {
			names = append(names, cmd.Name())
		}
		t.Run(cmd.Name(), func(t *testing.T) {
			path := strings.Fields(cmd.CommandPath())[1:]
			whole, brief := helpOf(t, append(path, "--help")...), helpOf(t, append(path, "-h")...)
			checkWidth(t, whole, 80)
			shown, notes, _ := strings.Cut(whole, "\n\n"+frame.PeerFlagsNote().Title)
			if (notes == "") != cmd.HasParent() || !strings.Contains(whole, "\nUsage:\n") {
				t.Errorf("only the capture's help has what is about all commands:\n%s", whole)
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				isShown := strings.Contains(shown, " --"+f.Name+" ") || strings.Contains(shown, " --"+f.Name+"[")
				if isShown == f.Hidden {
					t.Errorf("the help has --%s: %t", f.Name, isShown)
				}
				if f.Annotations[frame.GroupKey] == nil && !f.Hidden && f.Name != "help" && f.Name != "version" {
					t.Errorf("--%s stands in no group", f.Name)
				}
				if f.Name == "verbose" && !strings.Contains(shown, "-v, --verbose    ") {
					t.Errorf("-v looks as if it took a value:\n%s", shown)
				}
				if f.Name == "json" && !strings.Contains(f.Usage, "print the report as JSON: ") {
					t.Errorf("--json is something else here: %s", f.Usage)
				}
			})
			checkWidth(t, brief, 80)
			if n := strings.Count(brief, "\n"); n > 24 || n == 0 || brief == whole {
				t.Errorf("-h prints %d lines:\n%s", n, brief)
			}
			for _, m := range regexp.MustCompile(` --([a-z-]+)`).FindAllStringSubmatch(brief, -1) {
				known := cmd.Flags().Lookup(m[1]) != nil || root.Flags().Lookup(m[1]) != nil
				if !known && m[1] != "flows" && m[1] != "help" {
					t.Errorf("-h shows --%s, which is no flag", m[1])
				}
			}
		})
	}
	_, commands, _ := strings.Cut(helpOf(t, "-h"), "\nCommands:\n")
	commands, _, _ = strings.Cut(commands, "\nxdpcap ")
	if diff := cmp.Diff(strings.Join(names, " "), strings.Join(strings.Fields(commands), " ")); diff != "" {
		t.Errorf("the commands (-) and those of -h (+): %s", diff)
	}
	if helpOf(t, "help", "stats") != helpOf(t, "stats", "--help") || helpOf(t, "help") != helpOf(t, "--help") {
		t.Error("help and --help differ")
	}
}

// The words that a flag takes are in its help, and completion offers them.
func TestFlagWords(t *testing.T) {
	t.Parallel()
	root := NewRoot()
	var found []string
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			words := frame.WordsOf(f)
			if words == nil {
				return
			}
			found = append(found, strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "xdpcap")+" --"+f.Name))
			complete, _ := c.GetFlagCompletionFunc(f.Name)
			if complete == nil {
				t.Errorf("%s --%s: completion offers nothing", c.Name(), f.Name)
				return
			}
			offered, _ := complete(c, nil, "")
			if diff := cmp.Diff(words, offered); diff != "" {
				t.Errorf("%s --%s: the words (-) and those that completion offers (+) differ: %s", c.Name(), f.Name, diff)
			}
			for _, word := range words {
				if !regexp.MustCompile(`\b`+regexp.QuoteMeta(word)+`\b`).MatchString(f.Usage) && !strings.Contains(f.Usage, "...") {
					t.Errorf("the help of %s --%s has no %q: %s", c.Name(), f.Name, word, f.Usage)
				}
			}
		})
	}
	slices.Sort(found)
	want := "--at --direction --filter-at --format --rx-capture --snapshot-length --time-stamp-precision --time-stamp-type --transport --verdict --xdp-mode " +
		"count --at count --color count --direction count --variant count --verdict count --xdp-mode drops --color gather --format gather --time-stamp-precision latency --color monitor --color read --format read --time-stamp-precision read --verdict replay --format replay --time-stamp-precision replay --verdict stats --action stats --by stats --color stats --xdp-mode top --color top --direction"
	if diff := cmp.Diff(want, strings.Join(found, " ")); diff != "" {
		t.Errorf("the flags that take certain words: %s", diff)
	}
}
