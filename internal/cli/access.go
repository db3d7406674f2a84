package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// maxTokenFile bounds a file with a token, and maxCAFile one with certificates.
const (
	maxTokenFile = 4 << 10
	maxCAFile    = 1 << 20
)

// access is how a caller shows who it is, and knows whom it talks to.
type access struct {
	tokenFile, ca, cert, key, serverName string

	flags *pflag.FlagSet
	env   []string
}

func (a *cli) accessFlags(f *pflag.FlagSet) {
	a.access.flags, a.access.env = f, a.env
	f.StringVar(&a.access.tokenFile, "token-file", a.getenv("LANCEMASTER_TOKEN_FILE", ""), "file with your access token; LANCEMASTER_TOKEN_FILE gives the default")
	f.StringVar(&a.access.ca, "tls-ca", a.getenv("LANCEMASTER_TLS_CA", ""), "speak TLS; PEM file of the CAs that masters are known by; LANCEMASTER_TLS_CA gives the default")
	f.StringVar(&a.access.cert, "tls-cert", a.getenv("LANCEMASTER_TLS_CERT", ""), "speak TLS; PEM file of your certificate; LANCEMASTER_TLS_CERT gives the default")
	f.StringVar(&a.access.key, "tls-key", a.getenv("LANCEMASTER_TLS_KEY", ""), "PEM file of its key; LANCEMASTER_TLS_KEY gives the default")
	f.StringVar(&a.access.serverName, "tls-server-name", a.getenv("LANCEMASTER_TLS_SERVER_NAME", ""), "the name that masters' certificates must be for, instead of the host called; LANCEMASTER_TLS_SERVER_NAME gives the default")
}

// source names where the value of a flag came from: the flag, or the variable that gives its default.
func (x access) source(flag string) string {
	variable := "LANCEMASTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if x.flags == nil || x.flags.Changed(flag) || getenv(x.env, variable) == "" {
		return "--" + flag
	}
	return variable
}

// warnOfToken says that others can read the file of the caller's token, once. Whoever has it acts as the caller.
func (a *cli) warnOfToken() {
	path := a.access.tokenFile
	info, err := os.Stat(path)
	if path == "" || a.tokenWarned || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o044 == 0 {
		return
	}
	a.tokenWarned = true
	fmt.Fprintf(a.Err, "warning: others can read the access token in %s (mode %#o); next: chmod 600 %s\n", clean(path), info.Mode().Perm(), clean(path))
}

// token reads the caller's token. Nothing that is said of the file shows what is in it.
func (x access) token() (string, error) {
	if x.tokenFile == "" {
		return "", nil
	}
	b, err := readFile(x.source("token-file"), x.tokenFile, maxTokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	switch {
	case token == "":
		return "", usagef("%s: %s is empty; put a token into it, as lancemaster token create prints it", x.source("token-file"), x.tokenFile)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usagef("%s: %s holds more than one word; put a token into it and nothing else", x.source("token-file"), x.tokenFile)
	}
	return token, nil
}

// tls makes the configuration of connections, nil for plain TCP.
func (x access) tls() (*tls.Config, error) {
	if x.ca == "" && x.cert == "" && x.key == "" {
		return nil, nil //nolint:nilnil // nil is what the client wants for plain TCP
	}
	return x.secure()
}

// secure makes the configuration of connections that speak TLS in any case.
func (x access) secure() (*tls.Config, error) {
	if (x.cert == "") != (x.key == "") {
		return nil, usagef("%s and %s go together: a certificate is of no use without its key", x.source("tls-cert"), x.source("tls-key"))
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: x.serverName}
	if x.ca != "" {
		pem, err := readFile(x.source("tls-ca"), x.ca, maxCAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("%s: %s holds no certificate; give a PEM file of the CA's certificate, such as lancemaster tls ca makes", x.source("tls-ca"), x.ca)
		}
	}
	if x.cert != "" {
		pair, err := tls.LoadX509KeyPair(x.cert, x.key)
		if err != nil {
			return nil, usagef("%s and %s: %v", x.source("tls-cert"), x.source("tls-key"), err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// readFile reads a file that a flag or a variable names, up to a bound.
func readFile(source, path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("%s: %v; name a file that can be read", source, err)
	}
	defer f.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, usagef("%s: %v; name a file that can be read", source, err)
	case n > most:
		return nil, usagef("%s: %s is larger than %d bytes", source, path, most)
	}
	return b.Bytes(), nil
}
