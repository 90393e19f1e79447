package frame

import (
	"fmt"

	"github.com/spf13/pflag"
)

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
