package job

import "strings"

// secretWords are parts of keys that name secrets, in keys written without
// separators: awsSecretAccessKey and aws_secret_access_key alike.
var secretWords = []string{
	"secret", "password", "passwd", "passphrase", "token", "credential", "accountkey", "privatekey",
	"apikey", "session", "signature", "authorization", "storagekey", "masterkey", "encryptionkey", "customerkey",
}

// secretParts are short words that name a secret only where they stand alone
// between separators: "sas" is in "disaster" too.
var secretParts = []string{"sas", "sig", "pwd", "pass", "bearer"}

// SecretKey reports whether a key looks as if its value were a secret. The id of
// an access key is none.
func SecretKey(key string) bool {
	key = lower(key)
	flat := strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, key)
	for _, w := range secretWords {
		if strings.Contains(flat, w) {
			return true
		}
	}
	for _, part := range strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune("_-. ", r) }) {
		for _, w := range secretParts {
			if part == w {
				return true
			}
		}
	}
	// An access key that is not its id is the key itself, as some stores call it.
	return strings.HasSuffix(flat, "accesskey")
}
