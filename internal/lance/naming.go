package lance

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	versionsDir    = "_versions"
	manifestSuffix = ".manifest"
	// v2NameLen is twenty digits and the suffix. No version that fits an i64
	// needs twenty digits in V1, so the length alone tells the schemes apart.
	v2NameLen = 20 + len(manifestSuffix)
	// maxVersionFiles bounds one listing.
	maxVersionFiles = 1_000_000
)

// NamingScheme is how a dataset names its manifests.
type NamingScheme int

const (
	// V1 names a manifest by its version.
	V1 NamingScheme = iota + 1
	// V2 names it by 2^64-1 minus its version, in twenty digits.
	V2
)

func (s NamingScheme) String() string {
	switch s {
	case V1:
		return "V1"
	case V2:
		return "V2"
	}
	return "unknown naming scheme " + strconv.Itoa(int(s))
}

// manifestName is one decoded file name.
type manifestName struct {
	name    string
	version int64
	scheme  NamingScheme
}

// parseManifestName decodes a file name. Names that are not digits and the
// suffix are no manifests (detached versions, which begin with d; temporary
// files; the hint file) and give ok = false. Digits that decode to no version
// are an error: with such a name present, the latest version is not certain.
func parseManifestName(name string) (m manifestName, ok bool, err error) {
	digits, found := strings.CutSuffix(name, manifestSuffix)
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return manifestName{}, false, nil
	}
	m = manifestName{name: name, scheme: V1}
	n, parseErr := strconv.ParseUint(digits, 10, 64)
	if len(name) == v2NameLen {
		m.scheme = V2
		n = math.MaxUint64 - n
	}
	if parseErr != nil || n == 0 || n > math.MaxInt64 {
		return m, true, &Error{
			Code: ManifestDamaged, File: manifestPath(name),
			Reason: fmt.Sprintf("the %v file name stands for no version between 1 and 2^63-1", m.scheme),
		}
	}
	m.version = int64(n)
	return m, true, nil
}

// manifestPath is the file's place within the dataset, with a name that could
// be anything cut to what fits into a message.
func manifestPath(name string) string { return versionsDir + "/" + clip(name) }

// latestVersion picks the newest manifest out of a listing, one name at a time.
type latestVersion struct {
	newest, twin manifestName // twin: another name of the newest version
	seen         [V2 + 1]string
	names        int
}

func (l *latestVersion) add(name string) error {
	if l.names++; l.names > maxVersionFiles {
		return &Error{Code: Unsupported, Reason: fmt.Sprintf("%s/ holds more than %d files", versionsDir, maxVersionFiles)}
	}
	m, ok, err := parseManifestName(name)
	if !ok || err != nil {
		return err
	}
	l.seen[m.scheme] = name
	switch {
	case m.version > l.newest.version:
		l.newest, l.twin = m, manifestName{}
	case m.version == l.newest.version:
		l.twin = m
	}
	return nil
}

// result returns the newest manifest; ok is false when there was none.
func (l *latestVersion) result() (m manifestName, ok bool, err error) {
	if l.seen[V1] != "" && l.seen[V2] != "" {
		return m, false, &Error{Code: Unsupported, Reason: fmt.Sprintf(
			"%s/ mixes the V1 and V2 naming schemes (%s and %s)", versionsDir, clip(l.seen[V1]), l.seen[V2])}
	}
	if l.twin.version != 0 {
		return m, false, &Error{Code: ManifestDamaged, Reason: fmt.Sprintf(
			"%s and %s both stand for version %d", manifestPath(l.newest.name), manifestPath(l.twin.name), l.newest.version)}
	}
	return l.newest, l.newest.version != 0, nil
}
