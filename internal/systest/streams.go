package systest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// RunIn runs a command in a namespace, and returns its standard output. If it fails, the error has
// its standard error.
func RunIn(t *testing.T, ns *testnet.Namespace, cmd *exec.Cmd) (string, error) {
	t.Helper()
	stdout, stderr, status := Run(t, ns, cmd)
	if status != 0 {
		return stdout, fmt.Errorf("exit status %d: %s", status, stderr)
	}
	return stdout, nil
}

// Served returns the address at which a capture with --serve waits for clients.
func Served(t *testing.T, p *Process) string {
	t.Helper()
	m := regexp.MustCompile(`clients of tcp://([^\s,]+)`).FindStringSubmatch(p.Stderr())
	if m == nil {
		t.Fatalf("no address in %s", p.Stderr())
	}
	return m[1]
}

// Join connects a client to a capture with --serve, and returns the first bytes that it reads. From
// then on the client gets every packet.
func Join(t *testing.T, pair *testnet.Pair, p *Process) (client net.Conn, first []byte) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() (err error) { client, err = net.Dial("tcp", Served(t, p)); return err }))
	t.Cleanup(func() { client.Close() })
	first = make([]byte, 4)
	if _, err := io.ReadFull(client, first); err != nil {
		t.Fatal(err)
	}
	return client, first
}

// MakeCertificates writes an authority, and certificates of both sides: signed by it, and
// self-signed.
func MakeCertificates(t *testing.T, dir string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		testnet.Must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	var authority *x509.Certificate
	var authorityKey *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "client", "stranger"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		testnet.Must(t, err)
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			IsCA: name == "ca", BasicConstraintsValid: true,
		}
		c.Subject.CommonName = name
		by, byKey := authority, authorityKey
		if name == "ca" || name == "stranger" {
			by, byKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
		testnet.Must(t, err)
		if name == "ca" {
			authority, authorityKey = c, key
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		testnet.Must(t, err)
		write(name+".pem", "CERTIFICATE", der)
		write(name+".key", "PRIVATE KEY", secret)
	}
}
