package outputs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// TLSOptions are the flags of TLS, for --serve and tcp:// alike.
type TLSOptions struct{ cert, key, ca string }

func (o *TLSOptions) flags() []frame.Flag {
	return []frame.Flag{
		{Name: "tls-cert", Value: (*frame.Name)(&o.cert), Help: "use TLS for --serve and tcp://, with the certificates of this side in a PEM `file`"},
		{Name: "tls-key", Value: (*frame.Name)(&o.key), Help: "the key of the first certificate in --tls-cert, a PEM `file`"},
		{Name: "tls-ca", Value: (*frame.Name)(&o.ca),
			Help: "the authorities that must have signed the other side's certificate, a PEM `file`; --serve then accepts no client without a certificate"},
	}
}

// Asked reports whether a flag requests TLS.
func (o *TLSOptions) Asked() bool { return o.cert != "" || o.key != "" || o.ca != "" }

// config reads the files; nil = no flag requests TLS. The end of the context ends the wait for a
// file that is a pipe.
func (o *TLSOptions) config(ctx context.Context) (*tls.Config, error) {
	if !o.Asked() {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if (o.cert == "") != (o.key == "") {
		return nil, errors.New("--tls-cert and --tls-key: one needs the other")
	}
	if o.cert != "" {
		pair, err := loadKeyPair(ctx, o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", o.cert, o.key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if o.ca == "" {
		return c, nil
	}
	text, err := frame.ReadInput(ctx, o.ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca %s: there is no certificate in it", o.ca)
	}
	c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert
	return c, nil
}

// loadKeyPair reads certificates and the key of the first one.
func loadKeyPair(ctx context.Context, cert, key string) (tls.Certificate, error) {
	certText, err := frame.ReadInput(ctx, cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyText, err := frame.ReadSecret(ctx, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certText, keyText)
}
