package job

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const schemeFile = "file"

// NormalizeLocator returns the one spelling of a dataset's locator under which it
// is fenced and sent: white space around it removed, the scheme in lower case,
// local paths as file:///..., no slash at the end. What could be another name of
// the same place, or carry a credential, is refused. The error is a *Refusal and
// never repeats the locator, which may hold a password.
func NormalizeLocator(s string) (string, error) {
	n, refusal := normalizeLocator(s)
	if refusal != nil {
		return "", refusal
	}
	return n, nil
}

func normalizeLocator(s string) (string, *Refusal) {
	s = strings.TrimFunc(s, unicode.IsSpace)
	if refusal := checkName("the locator", s); refusal != nil {
		return "", refusal
	}
	if strings.ContainsAny(s, "?#") {
		return "", invalid("the locator has a query or a fragment")
	}
	// A backend that decodes %41 and a master that does not would fence one dataset
	// under two names, or read one and change another.
	if strings.Contains(s, "%") {
		return "", refuse(CodeInvalid, "the locator has a percent sign, by which one dataset would have two spellings",
			"write each character as itself")
	}
	scheme, authority, path, refusal := splitLocator(s)
	if refusal != nil {
		return "", refusal
	}
	path = strings.TrimRight(path, "/")
	if authority == "" && path == "" {
		return "", invalid("the locator names no dataset: it has neither an authority nor a path")
	}
	if refusal := checkPath(path); refusal != nil {
		return "", refusal
	}
	// A bare path has grown by its scheme.
	n := scheme + "://" + authority + path
	return n, checkName("the normalized locator", n)
}

// splitLocator takes a locator apart: a path begins with a slash or is empty.
func splitLocator(s string) (scheme, authority, path string, refusal *Refusal) {
	if strings.HasPrefix(s, "/") {
		return schemeFile, "", s, nil
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !isScheme(scheme) {
		return "", "", "", refuse(CodeInvalid, "the locator is neither an absolute path nor a URI with an authority",
			"write it like /data/t.lance, file:///data/t.lance or s3://bucket/t.lance")
	}
	scheme, authority = lower(scheme), rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if scheme == schemeFile {
		if authority != "" && lower(authority) != "localhost" {
			return "", "", "", refuse(CodeInvalid, "the locator is a file: URI of another host, or a relative one",
				"write it like file:///data/t.lance")
		}
		return scheme, "", path, nil
	}
	return scheme, authority, path, checkAuthority(authority)
}

func checkAuthority(s string) *Refusal {
	if strings.Contains(s, "@") {
		return refuse(CodeInvalid, "the locator carries a user or password",
			"take it out; credentials belong to the catalog, by reference")
	}
	// A port is digits; anything else after a colon may be a password with a slash.
	host, port, hasPort := strings.Cut(s, ":")
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']') + 1
		host, port, hasPort = s[:end], strings.TrimPrefix(s[end:], ":"), strings.HasPrefix(s[end:], ":")
		if end == 0 || !hasPort && s[end:] != "" {
			return invalid("the locator's authority is malformed")
		}
	}
	if hasPort && (host == "" || port == "" || strings.Trim(port, "0123456789") != "") {
		return invalid("the locator's authority is malformed")
	}
	if strings.ContainsFunc(s, unicode.IsSpace) || strings.Contains(s, `\`) {
		return invalid("the locator's authority is malformed")
	}
	return nil
}

// checkPath refuses segments by which one dataset would have several names.
func checkPath(path string) *Refusal {
	if path == "" {
		return nil
	}
	for _, segment := range strings.Split(path[1:], "/") {
		switch segment {
		case "":
			return invalid("the locator has an empty segment")
		case ".", "..":
			return invalid("the locator has a segment . or ..")
		}
	}
	if last, _ := utf8.DecodeLastRuneInString(path); unicode.IsSpace(last) {
		return invalid("the locator's path ends in white space")
	}
	return nil
}

func isScheme(s string) bool {
	good := s != "" && isAlnum(s[0]) && (s[0] < '0' || s[0] > '9')
	for i := range len(s) {
		good = good && (isAlnum(s[i]) || strings.IndexByte("+-.", s[i]) >= 0)
	}
	return good
}

// LocatorScheme returns the scheme of a normalized locator, or nothing.
func LocatorScheme(locator string) string {
	scheme, _, ok := strings.Cut(locator, "://")
	if !ok {
		return ""
	}
	return scheme
}
