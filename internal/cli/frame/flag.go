package frame

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Flag describes a flag of a command. Help, manual, completion, settings and Wireshark's dialog
// are generated from it.
type Flag struct {
	Name, Letter string   // the letter may be ""
	Also         []string // other tools' names of it, and usual mistakes; the help does not list them
	Help         string   // with the name of the value between backticks
	Hidden       bool     // from help and completion

	// Value takes the value. It is a pflag.Value, or points to a variable, which has the default.
	Value   any
	Default string // "" = the initial content of Value
	Bare    string // the value of the flag alone; "" = a value must follow it, unless it is a bool

	Words    []string             // known values; there may be others, such as numbers
	List     bool                 // the value is a list of words with commas between them
	Complete cobra.CompletionFunc // offers values in place of Words

	Settings Settings // where it can be set besides the command line
	Rivals   []string // flags that replace this one: if one is typed, no setting of this flag applies

	Dialog Dialog // in Wireshark, only for flags of the capture
}

// String is the flag as messages call it: -c rather than --packet-count.
func (r Flag) String() string { return FlagName(&pflag.Flag{Name: r.Name, Shorthand: r.Letter}) }

// NamesOf returns the names of flags.
func NamesOf(flags []Flag) (names []string) {
	for _, f := range flags {
		names = append(names, f.Name)
	}
	return names
}

// FilterWords in Flag.Rivals is the filter on the command line.
const FilterWords = "[filter]"

// Settings is a set of bits: exceptions from the rule that a flag can be set in files and in the
// environment. Where several commands have a flag of one name, the exceptions of all of them apply.
type Settings uint

const (
	// CommandLineOnly: only the command line sets it, because a setting of that name is meant for
	// another command. This exception is for its own command alone.
	CommandLineOnly Settings = 1 << iota
	// GrantsRights: it starts a program, keeps privileges, or chooses the user or the namespace, so
	// that whoever sets it has all rights of the process. Only the command line and files in /etc
	// set it.
	GrantsRights
	// ExposesData: it sends data to others. The environment does not set it if xdpcap was started
	// by sudo or the like, because the environment may be that of the calling user.
	ExposesData
	// NotForWireshark: no setting of it applies to a capture for Wireshark, which names the
	// interface, reads the packets and ends the capture by itself.
	NotForWireshark
)

// Except adds exceptions to all flags of a group.
func Except(s Settings, flags []Flag) []Flag {
	for i := range flags {
		flags[i].Settings |= s
	}
	return flags
}

// A Dialog is the widget by which Wireshark's users set a flag. Its kind follows from the flag's
// type and words.
type Dialog struct {
	Label   string                                // "" = Wireshark does not show the flag
	Place   int                                   // position in the dialog
	Group   string                                // "" = the flag's own
	Empty   string                                // placeholder of an empty text field
	Choices []Choice                              // the first one is the default
	Look    func(ifname string) ([]Choice, error) // finds the choices; Wireshark has a button to call it again
}

// A Choice is a value in a Dialog. The word "" means that the flag is omitted.
type Choice struct{ Word, Label string }

// AddFlags adds flags to those of a command, below a title in its help. Groups and flags are shown
// in the order in which they are added. Flags without a title cannot be set in files and in the
// environment.
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

// Define adds flags to a FlagSet, without a title, other names and completion.
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

// Kinds of Flag.Value: a List is words with commas between them, where a []string has an element
// for each repetition of the flag; a Count is how often the flag is given.
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

// WordsOf returns Flag.Words.
func WordsOf(f *pflag.Flag) []string { return f.Annotations[wordsKey] }

// SettingsOf returns the exceptions of a flag.
func SettingsOf(f *pflag.Flag) (s Settings) {
	for _, text := range f.Annotations[exceptKey] {
		n, _ := strconv.Atoi(text)
		s |= Settings(n)
	}
	return s
}

// RivalsOf returns Flag.Rivals.
func RivalsOf(f *pflag.Flag) []string { return f.Annotations[rivalsKey] }

// ForgetSettings resets those of these flags that a file or the environment has set. It is for
// flags that are refused if they are typed together with others of this command line: whoever set
// them in a file meant other command lines.
func ForgetSettings(all *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if f := all.Lookup(name); f != nil && f.Annotations[SettingKey] != nil {
			Forget(f)
		}
	}
}

// Forget gives a flag its default again.
func Forget(f *pflag.Flag) {
	delete(f.Annotations, SettingKey)
	f.Changed = false
	var err error
	list, isList := f.Value.(pflag.SliceValue)
	unset, ok := f.Value.(interface{ Forget() }) // of types whose Set refuses the empty text
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
