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
		delete(f.Annotations, SettingKey)
		f.Changed = false
		if err := forget(f); err != nil {
			panic(fmt.Sprintf("--%s does not take its own default: %v", name, err)) // TestForgetSettings finds this
		}
	}
}

func forget(f *pflag.Flag) error {
	switch v := f.Value.(type) {
	case pflag.SliceValue:
		return v.Replace(nil)
	case interface{ forget() }: // its Set refuses the empty text of a value that nobody has set
		if f.DefValue == "" {
			v.forget()
			return nil
		}
	}
	return f.Value.Set(f.DefValue)
}
