package anonymize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// keySize is the size of a key in bytes: 16 for AES-128, and 16 from which the padding comes.
const keySize = 32

// A Key is the secret that decides which address becomes which. The same key maps the same address
// to the same one in every file. Who has the key can undo the mapping.
type Key [keySize]byte

// ParseKey returns the key that is in a file's bytes: 32 bytes, or 64 hexadecimal digits that may
// be followed by a newline. The error has none of them.
func ParseKey(text []byte) (*Key, error) {
	key := new(Key)
	if len(text) == keySize {
		copy(key[:], text)
		return key, nil
	}
	digits := strings.TrimRight(string(text), "\r\n")
	if n, err := hex.Decode(key[:], []byte(digits[:min(len(digits), 2*keySize)])); err != nil || n != keySize || len(digits) != 2*keySize {
		return nil, fmt.Errorf("a key is %d random bytes, or %d hexadecimal digits", keySize, 2*keySize)
	}
	return key, nil
}

// Fingerprint tells two keys apart, and tells nothing of them: 16 hexadecimal digits of a hash.
func (k *Key) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("xdpcap --anonymize: fingerprint of a key\x00"), k[:]...))
	return hex.EncodeToString(sum[:8])
}
