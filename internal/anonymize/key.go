package anonymize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// keySize is the size of a key in bytes: 16 for AES-128, and 16 from which the padding is derived.
const keySize = 32

// A Key is the secret that determines the mapping of addresses. The same key maps an address to the
// same address in every file. Anyone with the key can undo the mapping.
type Key [keySize]byte

// ParseKey returns the key in a file's bytes: 32 bytes, or 64 hexadecimal digits with an optional
// newline at the end. The error contains no byte of the key.
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

// Fingerprint identifies a key without revealing it: 16 hexadecimal digits of a hash.
func (k *Key) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("xdpcap --anonymize: fingerprint of a key\x00"), k[:]...))
	return hex.EncodeToString(sum[:8])
}
