package anonymize

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte{0xa5, 3}, 16)
	raw[7] = '\n'
	digits := hex.EncodeToString(raw)
	for _, text := range [][]byte{raw, []byte(digits), []byte(strings.ToUpper(digits) + "\n"), []byte(digits + "\r\n")} {
		key, err := ParseKey(text)
		if err != nil || !bytes.Equal(key[:], raw) {
			t.Errorf("%q: %v, %v", text, key, err)
		}
	}
	for _, text := range []string{"", digits[:63], digits + "0", digits[:62] + "xy", string(raw[:31]), string(raw) + "x"} {
		if _, err := ParseKey([]byte(text)); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
			t.Errorf("%q: %v", text, err)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	if one, other := Key(raw), Key(bytes.Repeat([]byte{1}, 32)); one.Fingerprint() == other.Fingerprint() || len(one.Fingerprint()) != 16 {
		t.Errorf("fingerprints %s and %s", one.Fingerprint(), other.Fingerprint())
	}
}
