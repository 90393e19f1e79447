package anonymize

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// keySize is the size of a key in bytes: 16 for AES-128, and 16 from which the padding comes.
const keySize = 32

// A Key is the secret that decides which address becomes which. The same key maps the same address
// to the same one in every file. Who has the key can undo the mapping.
type Key [keySize]byte

// ErrShared is the error of a key file that others than its owner may use.
var ErrShared = errors.New("others than the file's owner may read or change the key")

// ReadKey reads a regular file with 32 bytes, or with 64 hexadecimal digits that may be followed by
// a newline. It refuses with ErrShared a file on which others than its owner have any right.
func ReadKey(path string) (*Key, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not wait for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read key", Path: path, Err: errors.New("it is no regular file")}
	case info.Mode().Perm()&0o077 != 0:
		return nil, &fs.PathError{Op: "read key", Path: path, Err: fmt.Errorf("%w: its mode is %04o", ErrShared, info.Mode().Perm())}
	}
	text, err := io.ReadAll(io.LimitReader(f, 3*keySize))
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(text)
	if err != nil {
		return nil, &fs.PathError{Op: "read key", Path: path, Err: err}
	}
	return key, nil
}

// ParseKey returns the key that is in a file's bytes.
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
