package frame

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Flag is a row: all that the command line says of a flag, in one place. Help, manual,
// completion, settings and Wireshark's dialog are made of it.
type Flag struct {
	Name, Letter string   // the letter may be ""
	Also         []string // names that the help does not list: other tools', and those that people type
	Help         string   // with the name of the value between backticks
	Hidden       bool     // from help and completion

	// Value takes the value. It is a pflag.Value, or points to a variable, which has the default.
	Value   any
	Default string // "" = what Value has
	Bare    string // what the flag means without a value; "" = a value must follow it, unless it is a bool

	Words    []string             // that it takes, besides others perhaps
	List     bool                 // it takes several of them, with commas between them
	Complete cobra.CompletionFunc // offers other words than these

	Settings Settings // where it can be set besides the command line
	Rivals   []string // flags that take its place: if one is typed, no setting of this flag applies

	Dialog Dialog // Wireshark's, of flags of the capture
}

// String is the flag as messages call it: -c rather than --packet-count.
func (r Flag) String() string { return FlagName(&pflag.Flag{Name: r.Name, Shorthand: r.Letter}) }

// NamesOf are the names of flags.
func NamesOf(flags []Flag) (names []string) {
	for _, f := range flags {
		names = append(names, f.Name)
	}
	return names
}

// FilterWords stand for the words of a filter among the rivals of a flag.
const FilterWords = "[filter]"

// Settings are exceptions from the rule that a flag can be set in files and in the environment, as
// a sum. Where commands have flags of one name, the exceptions of all hold.
type Settings uint

const (
	// Typed: only the command line sets it, because a setting of that name is meant for another
	// command. It holds for the command alone.
	Typed Settings = 1 << iota
	// Powerful: whoever sets it has the privileges of whoever starts xdpcap, because it starts a
	// program, keeps privileges, or says with which rights and where xdpcap works. Of the files
	// only those in /etc set it.
	Powerful
	// LetsOut: packets get out by it. Where root was started by somebody else with sudo or the
	// like, the environment, which may be that user's, does not set it.
	LetsOut
	// Wiresharks: Wireshark does that itself, so no setting applies to a capture for it.
	Wiresharks
)

// Except adds exceptions to all flags of a group.
func Except(s Settings, flags []Flag) []Flag {
	for i := range flags {
		flags[i].Settings |= s
	}
	return flags
}

// A Dialog is how Wireshark lets users set a flag. Which widget it shows follows from the flag's
// type and words.
type Dialog struct {
	Label   string // "" = users cannot set it there
	Place   int    // in the order of all flags there
	Group   string // "" = the flag's own
	Empty   string // what a text field shows as long as it is empty
	Choices []Choice
	Look    func(ifname string) ([]Choice, error) // finds the choices; users may have it look again
}

// A Choice is a value that users choose. The first one is the default. The word "" means that the
// flag is omitted.
type Choice struct{ Word, Label string }

// AddFlags adds flags to those of a command, below a title in its help. Groups and flags are shown
// in the order in which they are added. Those without a title are no settings.
func AddFlags(cmd *cobra.Command, title string, flags ...Flag) {
	all := cmd.Flags()
	all.SortFlags = false
	Define(all, flags...)
	names, before := make(map[string]string), all.GetNormalizeFunc()
	for i := range flags {
		if title != "" {
			all.Lookup(flags[i].Name).Annotations[GroupKey] = []string{title}
		}
		for _, name := range flags[i].Also {
			names[name] = flags[i].Name
		}
		if complete := flags[i].completion(); complete != nil {
			cmd.RegisterFlagCompletionFunc(flags[i].Name, complete)
		}
	}
	if len(names) > 0 {
		all.SetNormalizeFunc(func(f *pflag.FlagSet, name string) pflag.NormalizedName {
			if whole, ok := names[name]; ok {
				name = whole
			}
			return before(f, name)
		})
	}
}

// Define makes flags of rows.
func Define(f *pflag.FlagSet, flags ...Flag) {
	for i := range flags {
		flags[i].define(f)
	}
}

// completion offers the values of the flag; nil = files, as shells do.
func (r *Flag) completion() cobra.CompletionFunc {
	switch {
	case r.Complete != nil || r.Words == nil:
		return r.Complete
	case r.List:
		return CompleteList(r.Words...)
	}
	return cobra.FixedCompletions(r.Words, cobra.ShellCompDirectiveNoFileComp)
}

// A List is a value with commas between its words. A []string takes each of them from a flag of its
// own. A Count is how often a flag is given.
type (
	List  []string
	Count int
)

func (r *Flag) define(f *pflag.FlagSet) {
	switch v := r.Value.(type) {
	case *bool:
		f.BoolVarP(v, r.Name, r.Letter, *v, r.Help)
	case *string:
		f.StringVarP(v, r.Name, r.Letter, *v, r.Help)
	case *int:
		f.IntVarP(v, r.Name, r.Letter, *v, r.Help)
	case *uint32:
		f.Uint32VarP(v, r.Name, r.Letter, *v, r.Help)
	case *uint64:
		f.Uint64VarP(v, r.Name, r.Letter, *v, r.Help)
	case *net.IPMask:
		f.IPMaskVarP(v, r.Name, r.Letter, *v, r.Help)
	case *[]string:
		f.StringArrayVarP(v, r.Name, r.Letter, *v, r.Help)
	case *List:
		f.StringSliceVarP((*[]string)(v), r.Name, r.Letter, *v, r.Help)
	case *Count:
		f.CountVarP((*int)(v), r.Name, r.Letter, r.Help)
	case *time.Duration:
		f.VarP((*Duration)(v), r.Name, r.Letter, r.Help)
	default:
		f.VarP(v.(pflag.Value), r.Name, r.Letter, r.Help)
	}
	flag := f.Lookup(r.Name)
	if r.Default != "" {
		if err := flag.Value.Set(r.Default); err != nil {
			panic(fmt.Sprintf("--%s does not take its own default: %v", r.Name, err)) // every run finds this
		}
		flag.DefValue = flag.Value.String()
	}
	if r.Bare != "" {
		flag.NoOptDefVal = r.Bare
	}
	flag.Hidden = r.Hidden
	flag.Annotations = map[string][]string{wordsKey: r.Words, rivalsKey: r.Rivals, exceptKey: {strconv.Itoa(int(r.Settings))}}
}

// Annotations of flags: the group, and that a flag was set in a file, in the environment or by the
// program's name, and not on the command line.
const (
	GroupKey   = "group"
	SettingKey = "setting"

	wordsKey  = "words"
	rivalsKey = "rivals"
	exceptKey = "except"
)

// WordsOf are the words that a flag takes; nil = it takes any text.
func WordsOf(f *pflag.Flag) []string { return f.Annotations[wordsKey] }

// SettingsOf are the exceptions of a flag.
func SettingsOf(f *pflag.Flag) (s Settings) {
	for _, text := range f.Annotations[exceptKey] {
		n, _ := strconv.Atoi(text)
		s |= Settings(n)
	}
	return s
}

// RivalsOf are the flags that take the place of a flag.
func RivalsOf(f *pflag.Flag) []string { return f.Annotations[rivalsKey] }

// ForgetSettings undoes settings: it gives these flags their defaults, except those that were
// typed. It is for flags that have no effect beside what was typed, and are refused when they are
// typed: whoever set them in a file or in the environment meant other command lines.
func ForgetSettings(all *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := all.Lookup(name)
		if f == nil || f.Annotations[SettingKey] == nil {
			continue
		}
		Forget(f)
	}
}

// Forget undoes what has set a flag: it gives it its default.
func Forget(f *pflag.Flag) {
	delete(f.Annotations, SettingKey)
	f.Changed = false
	var err error
	list, isList := f.Value.(pflag.SliceValue)
	unset, ok := f.Value.(interface{ Forget() }) // its Set refuses the empty text of a value that nobody has set
	switch {
	case isList:
		err = list.Replace(nil)
	case ok && f.DefValue == "":
		unset.Forget()
	default:
		err = f.Value.Set(f.DefValue)
	}
	if err != nil {
		panic(fmt.Sprintf("--%s does not take its own default: %v", f.Name, err)) // TestForget finds this
	}
}
