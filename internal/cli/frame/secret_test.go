package frame

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A key that others may read or change is refused, and a key of root that its group may read is
// not.
func TestReadSecret(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for _, test := range []struct {
		mode  os.FileMode
		owner int
		taken bool
	}{
		{0o600, 0, true}, {0o400, 1234, true}, {0o640, 0, true}, {0o440, 0, true},
		{0o644, 0, false}, {0o604, 0, false}, {0o660, 0, false}, {0o640, 1234, false}, {0o620, 1234, false},
	} {
		path := filepath.Join(t.TempDir(), "a key")
		for _, err := range []error{os.WriteFile(path, []byte("secret"), 0o600), os.Chown(path, test.owner, 0), os.Chmod(path, test.mode)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		text, err := ReadSecret(context.Background(), path)
		switch {
		case test.taken && (err != nil || string(text) != "secret"):
			t.Errorf("%04o of user %d: %q, %v", test.mode, test.owner, text, err)
		case !test.taken && (err == nil || !strings.HasSuffix(err.Error(), ": chmod 600 '"+path+"'")):
			t.Errorf("%04o of user %d: %q, %v", test.mode, test.owner, text, err)
		}
	}
}
