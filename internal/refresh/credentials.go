package refresh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Resolver reads what a reference names, file:PATH or env:NAME, on this machine.
// It does so anew at each call, and its errors hold no part of the content.
type Resolver interface {
	Resolve(ctx context.Context, reference string) (string, error)
}

var errNoResolver = errors.New("this refresher was made without a resolver of references")

// resolve reads a secret; no reference is no secret.
func resolve(ctx context.Context, from Resolver, reference string) (string, error) {
	if reference == "" {
		return "", nil
	}
	if from == nil {
		return "", errNoResolver
	}
	secret, err := from.Resolve(ctx, reference)
	if err != nil {
		return "", err
	}
	if len(secret) > maxSecret {
		return "", fmt.Errorf("it has %d bytes; at most %d are allowed", len(secret), maxSecret)
	}
	return secret, nil
}

// Certificate gives the certificate that is shown to a server which asks for one;
// see tls.Config.GetClientCertificate. nil shows none.
type Certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

// clientTLS returns how to trust a server: by the CA bundle alone where one is
// named, else by the certificates that this machine trusts.
func clientTLS(ctx context.Context, from Resolver, caRef string, own Certificate) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: own}
	if caRef == "" {
		return config, nil
	}
	if from == nil {
		return nil, errNoResolver
	}
	if !strings.HasPrefix(caRef, "file:") {
		return nil, errors.New("the CA bundle's reference is not file:PATH; correct the catalog")
	}
	bundle, err := from.Resolve(ctx, caRef)
	if err != nil {
		return nil, fmt.Errorf("the CA bundle: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM([]byte(bundle)) {
		return nil, errors.New("the CA bundle holds no certificate in PEM; correct the file that the catalog names")
	}
	return config, nil
}

// bounded returns a context that ends, at the latest when its cancel is called.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

// timeLeft returns how long the context still has.
func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return DefaultTimeout
	}
	return time.Until(deadline)
}
