package frame

import (
	"os"
	"testing"
)

// Each page that help names is there.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		if _, err := os.Stat("../../../docs/" + page + ".md"); err != nil {
			t.Error(err)
		}
	}
}
