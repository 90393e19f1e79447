package cli

import (
	"io"
	"testing"
)

// Without an interface there is nobody to ask for types.
func TestListStampTypesOfNone(t *testing.T) {
	if err := printStampTypes(io.Discard, nil); err == nil {
		t.Error("no interface is no error")
	}
}
