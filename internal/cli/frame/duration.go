package frame

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

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
