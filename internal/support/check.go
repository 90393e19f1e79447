package support

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Answer is the result of a check: whether a feature works here. The zero value means unknown.
type Answer int

const (
	Unknown Answer = iota
	No
	Yes
)

var answerNames = [...]string{"unknown", "no", "yes"}

// String returns the answer's name, or the number of an undefined answer.
func (a Answer) String() string {
	if a < 0 || int(a) >= len(answerNames) {
		return strconv.Itoa(int(a))
	}
	return answerNames[a]
}

// MarshalText writes the answer's name: "yes", "no" or "unknown".
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// A Check is the answer whether a feature works here.
type Check struct {
	Key    string `json:"-"` // names the feature
	Answer Answer `json:"answer"`
	Reason string `json:"reason,omitempty"` // the cause of a no, or a note on a yes; else ""
	Remedy string `json:"remedy,omitempty"` // of a no; "" = unknown, or it depends on Kind

	// Kind is one of the errors below if a caller has its own remedy, such as other options; else
	// nil.
	Kind error `json:"-"`
}

// The values of Check.Kind.
var (
	ErrAnotherCapture = errors.New("the program is another capture's, and cannot be traced")
	ErrOccupied       = errors.New("the interface runs an XDP program, which is never replaced")
	ErrLockedMemory   = errors.New("the rings are larger than the memory that this user may lock")
	ErrBufferTooLarge = errors.New("the rings would take too much memory")
	ErrPerfRefused    = errors.New("this process may not open perf events")
	ErrLargeMTU       = errors.New("the driver has no XDP for packets of several buffers, which the MTU allows")
	ErrPrivileges     = errors.New("this process lacks privileges")
	ErrTracingRefused = errors.New("the kernel does not permit fentry and fexit programs")
	// ErrKernelRefuses is an ErrTracingRefused whose only remedy is another kernel.
	ErrKernelRefuses = fmt.Errorf("%w to anybody", ErrTracingRefused)
)

func yes(key string) Check { return Check{Key: key, Answer: Yes} }
func no(key, reason, remedy string) Check {
	return Check{Key: key, Answer: No, Reason: reason, Remedy: remedy}
}
func unknown(key, reason string) Check { return Check{Key: key, Reason: reason} }

// Checks are in the order of display.
type Checks []Check

// Get finds a check by its key. If the check was not made, its answer is Unknown.
func (cs Checks) Get(key string) Check {
	if i := slices.IndexFunc(cs, func(c Check) bool { return c.Key == key }); i >= 0 {
		return cs[i]
	}
	return Check{Key: key}
}

// MarshalJSON makes one object: a key for each check, in order.
func (cs Checks) MarshalJSON() ([]byte, error) {
	var fields []string
	for _, c := range cs {
		value, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		fields = append(fields, fmt.Sprintf("%q:%s", c.Key, value))
	}
	return []byte("{" + strings.Join(fields, ",") + "}"), nil
}

// all returns a check with this key: Yes if all needs are Yes, or else the answer and the reason of
// the first need that is No, or of the first that is Unknown.
func all(key string, needs ...Check) Check {
	for _, answer := range []Answer{No, Unknown} {
		for _, n := range needs {
			if n.Answer != answer {
				continue
			}
			if n.Reason == "" {
				n.Reason = strings.ReplaceAll(n.Key, "_", " ") + ": " + answer.String()
			}
			return Check{key, answer, n.Reason, n.Remedy, n.Kind}
		}
	}
	return yes(key)
}
