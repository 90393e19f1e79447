package capture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// headersWord is the value of -s for packets without payload. headers+64 keeps 64 bytes of it.
const headersWord = "headers"

// A snapshotLength is the value of -s: how many bytes of each packet are kept.
type snapshotLength struct {
	frame.Size       // 0 = as many as possible; not used with headers
	headers    bool  // packets are cut after their headers and payload
	payload    int64 // bytes that are kept after the headers
}

// Set and String are pflag.Value's, with Size's Type.
func (s *snapshotLength) Set(text string) error {
	number := frame.Size{Unit: 1}
	payload, more := strings.CutPrefix(text, headersWord+"+")
	switch {
	case text == headersWord:
		*s = snapshotLength{headers: true}
	case more && number.Set(payload) == nil:
		*s = snapshotLength{headers: true, payload: number.Bytes}
	case !more && number.Set(text) == nil:
		*s = snapshotLength{Size: number}
	default:
		return errors.New("must be a number, which may end in k, M or G, or headers, or headers+64")
	}
	return nil
}

// Forget undoes Set.
func (s *snapshotLength) Forget() { *s = snapshotLength{} }

func (s *snapshotLength) String() string {
	switch {
	case s.headers && s.payload > 0:
		return fmt.Sprintf("%s+%d", headersWord, s.payload)
	case s.headers:
		return headersWord
	}
	return s.Size.String()
}
