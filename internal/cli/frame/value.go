package frame

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Name is the value of a flag that takes a file, an address or a BPF map. It must not be
// empty, because in a script that is an unset variable and not an omitted flag.
type Name string

// A NameList is the values of a flag that takes a Name and may be repeated.
type NameList []string

// Set, String and Type are pflag.Value's.
func (n *NameList) Set(text string) error {
	var one Name
	if err := one.Set(text); err != nil {
		return err
	}
	*n = append(*n, text)
	return nil
}

func (n *NameList) String() string { return strings.Join(*n, " ") }

func (n *NameList) Type() string { return "name" }

// Append, Replace and GetSlice make it a pflag.SliceValue.
func (n *NameList) Append(text string) error     { return n.Set(text) }
func (n *NameList) Replace(texts []string) error { *n = texts; return nil }
func (n *NameList) GetSlice() []string           { return *n }

// Set, String and Type are pflag.Value's.
func (n *Name) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	*n = Name(text)
	return nil
}

func (n *Name) String() string { return string(*n) }

func (n *Name) Type() string { return "name" }

func (n *Name) Forget() { *n = "" }

// SocketPath returns the path of a socket in the file system: --serve and read take unix:PATH.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }

// A Size is the value of a flag that takes a number of bytes. The number may end in k, M or G, or
// in KiB, MiB or GiB; without such a suffix it counts the flag's own unit.
type Size struct {
	Bytes int64
	Unit  int64 // bytes of a number without a suffix
}

var suffixes = map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}

// maxSize is less than the largest int64, so that lengths of headers can be added to a size.
const maxSize = math.MaxInt64 - 1<<30

// Set, String and Type are pflag.Value's. Set takes what String returns.
func (s *Size) Set(text string) error {
	digits, unit := text, s.Unit
	short := strings.TrimSuffix(text, "iB")
	if n := len(short); n > 0 {
		if factor, ok := suffixes[short[n-1]|0x20]; ok {
			digits, unit = short[:n-1], factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxSize/unit || strings.HasPrefix(digits, "+") {
		return fmt.Errorf("must be a number, which may end in k, M or G")
	}
	s.Bytes = n * unit
	return nil
}

func (s *Size) String() string {
	if s.Bytes == 0 || s.Unit == 0 {
		return ""
	}
	if s.Bytes%s.Unit != 0 { // of a number with a suffix
		return strconv.FormatInt(s.Bytes>>10, 10) + "k"
	}
	return strconv.FormatInt(s.Bytes/s.Unit, 10)
}

func (s *Size) Type() string { return "size" }

func (s *Size) Forget() { s.Bytes = 0 }

// A Duration is the value of a flag that takes a time: a number of seconds, or numbers with Go's
// units. A default of 0 is not shown in the help.
type Duration time.Duration

// Set, String and Type are pflag.Value's.
func (d *Duration) Set(text string) error {
	if text != "" && strings.Trim(text, "0123456789.") == "" {
		text += "s"
	}
	t, err := time.ParseDuration(text)
	if word := timeInOneWord(text); err != nil && word != "" {
		return fmt.Errorf("must be one word: %s", word)
	}
	if err != nil || t <= 0 {
		return errors.New("must be a time above zero: 10 or 10s for ten seconds, 200ms, 5m, 1h30m")
	}
	*d = Duration(t)
	return nil
}

// timeInOneWord returns 5m for "5 minutes"; "" for a text that is no number with a word for a unit.
func timeInOneWord(text string) string {
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	if unit := unitsOfTime[strings.TrimSpace(text[len(number):])]; unit != "" && number != "" {
		return number + unit
	}
	return ""
}

func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *Duration) Type() string { return "time" }

func (d *Duration) Forget() { *d = 0 }

// ForDuration returns a context that ends after a time; 0 is no limit.
func ForDuration(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
