package capture

import (
	"io"
	"testing"
)

// Without an interface there is no card to ask for its types.
func TestListStampTypesOfNone(t *testing.T) {
	t.Parallel()
	if err := printStampTypes(io.Discard, nil); err == nil {
		t.Error("no interface is no error")
	}
}
