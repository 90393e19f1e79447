package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The words that a flag takes are in its help, and completion offers them.
func TestFlagWords(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
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
	want := "--direction --filter-at --format --rx-capture --snapshot-length --time-stamp-type --transport --verdict --xdp-mode " +
		"count --direction count --variant count --verdict count --xdp-mode latency --xdp-mode read --format stats --action stats --by stats --xdp-mode"
	if diff := cmp.Diff(want, strings.Join(found, " ")); diff != "" {
		t.Errorf("the flags that take certain words: %s", diff)
	}
}
