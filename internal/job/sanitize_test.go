package job_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lancemaster/lancemaster/internal/job"
)

func TestSanitizeMessage(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"disk full", "disk full"},
		{"", ""},
		{" padded\r\n", "padded"},
		{"a\nb\x00c\td\x7fe\u0085f", "a b c d e f"},
		{"a\u202Eb\u2028c\u2066d", "a b c d"},
		{"bad \xff\xfe bytes", "bad \uFFFD bytes"},
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{strings.Repeat("x", 2000), strings.Repeat("x", 1024)},
		{strings.Repeat("x", 1023) + "\u00E9", strings.Repeat("x", 1023)},
		{strings.Repeat("x", 1022) + "\u00E9", strings.Repeat("x", 1022) + "\u00E9"},

		{"get s3://user:hunter2@b/x failed", "get s3://***@b/x failed"},
		{"https://hunter2@h and http://h/a@b", "https://***@h and http://h/a@b"},
		{"s3://u:hunt@er2@b/x", "s3://***@b/x"},
		{"aws_secret_access_key=hunter2 region=x", "aws_secret_access_key=*** region=x"},
		{"password: hunter2, user: bob", "password: ***, user: bob"},
		{`{"password":"hunter 2","user":"bob"}`, `{"password":***,"user":"bob"}`},
		{`{\"token\":\"hunter2\",\"user\":\"bob\"}`, `{\"token\":***,\"user\":\"bob\"}`},
		{"Token => 'hunter 2' end", "Token => *** end"},
		{"AccountKey=hunter2==;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"},
		{"https://h/p?sv=1&sig=hunter2%3D&se=2", "https://h/p?sv=1&sig=***&se=2"},
		{"https://h/p?X-Amz-Signature=hunter2&X-Amz-Credential=hunter2&a=b", "https://h/p?X-Amz-Signature=***&X-Amz-Credential=***&a=b"},
		{"sas_token=hunter2", "sas_token=***"},
		{"SAS=hunter2", "SAS=***"},
		{"pwd=hunter2", "pwd=***"},
		{"client-secret=\"hunter2", "client-secret=***"},
		{"Authorization: AWS4-HMAC-SHA256 hunter2\nhost: x", "Authorization: *** host: x"},
		{"sent Bearer hunter2hunter2hunter2 twice", "sent Bearer *** twice"},
		{"secret 0123456789abcdef0123456789ABCDEF was wrong", "secret *** was wrong"},
		{"-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY----- rest", "*** rest"},
		{"-----BEGIN PRIVATE KEY-----\nhunter2", "***"},

		// What only looks a little like one stays readable.
		{"disaster: the index broke", "disaster: the index broke"},
		{"uuid 8b7d7f0e-6c1c-4b0c-9d3a-1f2e3d4c5b6a", "uuid 8b7d7f0e-6c1c-4b0c-9d3a-1f2e3d4c5b6a"},
		{"aws_access_key_id=AKIA", "aws_access_key_id=***"}, // no secret, and no loss
		{"the token expired", "the token expired"},
		{"bearer of bad news", "bearer of bad news"},
	} {
		if got := job.SanitizeMessage(tt.given); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.given, got, tt.want)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("disk full", "hunter2")
	f.Add("a\xff\x00", "x\"y")
	f.Add(strings.Repeat("\u00E9", 600), "p w")
	f.Fuzz(func(t *testing.T, text, secret string) {
		for _, given := range []string{text, text + " password=" + secret, `{"token":"` + secret + `"}` + text} {
			got := job.SanitizeMessage(given)
			if len(got) > job.MaxMessage || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
				t.Errorf("%q: %q", given, got)
			}
		}
		// A secret of plain characters behind its key is gone, whatever comes after.
		plain := strings.Map(func(r rune) rune {
			if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				return -1
			}
			return r
		}, secret)
		got := job.SanitizeMessage("password=" + plain + " " + text)
		if rest, found := strings.CutPrefix(got, "password="); len(plain) > 0 && (!found || !strings.HasPrefix(rest, "***")) {
			t.Errorf("%q is left of %q", got, plain)
		}
	})
}

func TestSecretKey(t *testing.T) {
	for key, want := range map[string]bool{
		"aws_secret_access_key": true, "AWS_SECRET_ACCESS_KEY": true, "secretAccessKey": true, "password": true,
		"aws_session_token": true, "sas_token": true, "azure_storage_sas_key": true, "SAS": true, "account_key": true,
		"azure_storage_account_key": true, "accountKey": true, "private_key": true, "google_service_account_key": true,
		"credential": true, "aws_credentials": true, "access_key": true, "master_key": true, "my.pwd": true,
		"access_key_id": false, "aws_access_key_id": false, "region": false, "endpoint": false, "disaster": false,
		"allow_http": false, "signal": false, "passive": false, "compass": false, "bucket": false, "": false,
	} {
		if got := job.SecretKey(key); got != want {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
}
