package frame

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Annotations of flags that take certain words.
const (
	wordsKey = "words" // which words
	listKey  = "list"  // it takes several of them, with commas between them
)

// TakesWords notes the words that a flag takes, for completion and for Wireshark's dialog. Other
// words may be possible, too.
func TakesWords(f *pflag.FlagSet, flag string, words ...string) {
	annotate(f.Lookup(flag), wordsKey, words...)
}

// TakesList is TakesWords for a flag that takes several words, with commas between them.
func TakesList(f *pflag.FlagSet, flag string, words ...string) {
	TakesWords(f, flag, words...)
	annotate(f.Lookup(flag), listKey, "true")
}

// annotate is SetAnnotation of a flag that is there.
func annotate(f *pflag.Flag, key string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[key] = values
}

// WordsOf are the words that a flag takes; nil = it takes any text.
func WordsOf(f *pflag.Flag) []string { return f.Annotations[wordsKey] }

// CompleteWords makes completion offer the words that the flags of a command take.
func CompleteWords(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		words := WordsOf(f)
		switch {
		case words == nil:
		case f.Annotations[listKey] != nil:
			cmd.RegisterFlagCompletionFunc(f.Name, CompleteList(words...))
		default:
			cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}
