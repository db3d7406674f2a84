package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
)

// A token travels in the clear to this machine and to no other.
func TestATokenIsNotSentInTheClear(t *testing.T) {
	notThere := errors.New("nobody is there")
	for _, tc := range []struct {
		address string
		token   string
		tls     *tls.Config
		dialled bool
	}{
		{"127.0.0.1:9021", "lm_x", nil, true},
		{"127.9.9.9:9021", "lm_x", nil, true},
		{"[::1]:9021", "lm_x", nil, true},
		{"localhost:9021", "lm_x", nil, true},
		{"unix:/run/lancemaster.sock", "lm_x", nil, true},
		{"10.0.0.1:9021", "", nil, true},
		{"10.0.0.1:9021", "lm_x", &tls.Config{MinVersion: tls.VersionTLS12}, true},
		{"10.0.0.1:9021", "lm_x", nil, false},
		{"m1.example.com:9021", "lm_x", nil, false},
		{"localhost.example.com:9021", "lm_x", nil, false},
		{"[2001:db8::1]:9021", "lm_x", nil, false},
		{"0.0.0.0:9021", "lm_x", nil, false},
	} {
		dialled := false
		c, err := client.New(client.Config{
			Addresses: []string{tc.address}, Token: tc.token, TLS: tc.tls,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				dialled = true
				return nil, notThere
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Catalogs(t.Context())
		var failed *client.Error
		if dialled != tc.dialled || !errors.As(err, &failed) || failed.Code != client.CodeUnreachable {
			t.Errorf("%s, token %q, TLS %v: dialled: %v, %v", tc.address, tc.token, tc.tls != nil, dialled, err)
			continue
		}
		if !tc.dialled && (!strings.Contains(failed.Message, "cannot send the access token to "+tc.address) || !strings.Contains(failed.Next, "--tls-ca")) {
			t.Errorf("%s: says %q, %q", tc.address, failed.Message, failed.Next)
		}
		if strings.Contains(err.Error(), "lm_x") {
			t.Errorf("the token is shown: %v", err)
		}
	}
}
