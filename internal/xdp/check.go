package xdp

import (
	"bytes"
	"encoding/json"
	"strings"
)

// An Answer is whether something can be had. The zero value says that it is not known.
type Answer int

const (
	Unknown Answer = iota
	No
	Yes
)

var answerNames = [...]string{"unknown", "no", "yes"}

func (a Answer) String() string { return answerNames[a] }

// MarshalText is the name: "yes", "no" or "unknown".
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// A Check is one thing that was looked at, and what was found.
type Check struct {
	Key    string `json:"-"`
	Answer Answer `json:"answer"`
	Reason string `json:"reason,omitempty"` // why not, or what is to be known about a yes; else ""
	Remedy string `json:"remedy,omitempty"` // what to do about a no; "" = nothing can be done
}

// Checks are in the order in which they are best read.
type Checks []Check

// Get finds a check; one that was not made is Unknown.
func (cs Checks) Get(key string) Check {
	for _, c := range cs {
		if c.Key == key {
			return c
		}
	}
	return Check{Key: key}
}

// MarshalJSON makes one object, with the checks' keys.
func (cs Checks) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, c := range cs {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(c.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// all is yes when each of the needs is; else it has the reason of the first no, or of the first
// unknown when there is no no.
func all(key string, needs ...Check) Check {
	for _, answer := range []Answer{No, Unknown} {
		for _, n := range needs {
			if n.Answer != answer {
				continue
			}
			if n.Reason == "" {
				n.Reason = strings.ReplaceAll(n.Key, "_", " ") + ": " + answer.String()
			}
			return Check{key, answer, n.Reason, n.Remedy}
		}
	}
	return Check{Key: key, Answer: Yes}
}
