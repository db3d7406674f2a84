package job_test

import (
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

func TestNormalizeLocator(t *testing.T) {
	for _, tt := range []struct{ locator, want string }{
		{"/data/t.lance", "file:///data/t.lance"},
		{"file:///data/t.lance", "file:///data/t.lance"},
		{"FILE:///data/T.lance", "file:///data/T.lance"},
		{"file://localhost/data/t.lance", "file:///data/t.lance"},
		{"file://LocalHost/data/t.lance", "file:///data/t.lance"},
		{"  /data/t.lance\t", "file:///data/t.lance"},
		{"/data/t.lance///", "file:///data/t.lance"},
		{"S3://Bucket/Path/T.lance/", "s3://Bucket/Path/T.lance"},
		{"s3+ddb://b/t", "s3+ddb://b/t"},
		{"s3://b", "s3://b"},
		{"s3://b/", "s3://b"},
		{"s3:///t", "s3:///t"},
		{"az://c@not/t", ""}, // below
		{"hdfs://nn:8020/t", "hdfs://nn:8020/t"},
		{"hdfs://[::1]:8020/t", "hdfs://[::1]:8020/t"},
		{"hdfs://[::1]/t", "hdfs://[::1]/t"},
		{"s3://b/with@sign/a:b/c d", "s3://b/with@sign/a:b/c d"},
		{"s3://b/...", "s3://b/..."},
		{"s3://b/.hidden", "s3://b/.hidden"},
		{"/d\\e", "file:///d\\e"},
	} {
		got, err := job.NormalizeLocator(tt.locator)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%q is accepted as %q", tt.locator, got)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.locator, got, err, tt.want)
		}
	}
}

func TestNormalizeLocatorRefuses(t *testing.T) {
	for _, tt := range []struct{ locator, want string }{
		{"", "must not be empty"},
		{"   ", "must not be empty"},
		{"data/t.lance", "neither an absolute path"},
		{"./t.lance", "neither an absolute path"},
		{"t", "neither an absolute path"},
		{"file:/data/t", "neither an absolute path"},
		{"file:t", "neither an absolute path"},
		{"://b/t", "neither an absolute path"},
		{"1s://b/t", "neither an absolute path"},
		{"s3 ://b/t", "neither an absolute path"},
		{"file://t.lance", "of another host"},
		{"file://host/t", "of another host"},
		{"file://user@localhost/t", "of another host"},
		{"file://localhost:80/t", "of another host"},
		{"s3://user:pw@b/x", "user or password"},
		{"s3://user@b/x", "user or password"},
		{"s3://@b/x", "user or password"},
		{"s3://user:p/w@b/x", "malformed"},
		{"s3://b:80x/t", "malformed"},
		{"s3://b:/t", "malformed"},
		{"s3://:80/t", "malformed"},
		{"s3://[::1/t", "malformed"},
		{"s3://[::1]x/t", "malformed"},
		{"s3://a b/t", "malformed"},
		{"s3://a\\b/t", "malformed"},
		{"s3://b/t?versionId=1", "query or a fragment"},
		{"s3://b/t?", "query or a fragment"},
		{"s3://b/t#v1", "query or a fragment"},
		{"/d/t#", "query or a fragment"},
		{"s3://", "neither an authority nor a path"},
		{"file://", "neither an authority nor a path"},
		{"file:///", "neither an authority nor a path"},
		{"/", "neither an authority nor a path"},
		{"s3:////", "neither an authority nor a path"},
		{"file://localhost", "neither an authority nor a path"},
		{"s3://b//t", "empty segment"},
		{"//d/t", "empty segment"},
		{"file:////d/t", "empty segment"},
		{"/d/./t", ". or .."},
		{"/d/../t", ". or .."},
		{"/..", ". or .."},
		{"s3://b/.", ". or .."},
		{"s3://b/%2e%2E/t", "percent sign"},
		{"/d/%41", "percent sign"},
		{"s3://b%41/t", "percent sign"},
		{"s3://b/t /", "white space"},
		{"/d/t\u2003/", "white space"},
		{"/d/\x00", "control character"},
		{"/d/a\nb", "control character"},
		{"/d/\xff", "valid UTF-8"},
		{"/" + strings.Repeat("d", 1024), "at most 1024 bytes"},
		{"/" + strings.Repeat("d", 1020), "at most 1024 bytes"}, // with its scheme
	} {
		_, err := job.NormalizeLocator(tt.locator)
		wantRefusal(t, tt.locator, err, tt.want)
	}
}

// TestLocatorKeptOutOfErrors: a locator that is refused may carry a password.
func TestLocatorKeptOutOfErrors(t *testing.T) {
	for _, locator := range []string{
		"s3://user:hunter2@b/x", "s3://user:hun/ter2@b/x", "s3://b/x?secret=hunter2", "hunter2", "s3://user:hunter2@b/../x",
		"file://user:hunter2@h/x",
	} {
		_, err := job.NormalizeLocator(locator)
		if err == nil || strings.Contains(err.Error(), "hun") {
			t.Errorf("%q: %v", locator, err)
		}
	}
}

func TestLocatorScheme(t *testing.T) {
	for locator, want := range map[string]string{"file:///d": "file", "s3+ddb://b/t": "s3+ddb", "/d": "", "": ""} {
		if got := job.LocatorScheme(locator); got != want {
			t.Errorf("%q: %q, want %q", locator, got, want)
		}
	}
}

func FuzzLocator(f *testing.F) {
	for _, seed := range []string{
		"/data/t.lance", "file://localhost/d", "S3://b/t/", "s3://u:p@b/x", "s3://b/t?x", "//", "s3://[::1]:1/t", "a", "\xff", "/d/ /",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, locator string) {
		n, err := job.NormalizeLocator(locator)
		if err != nil {
			if _, ok := job.AsRefusal(err); !ok || n != "" {
				t.Errorf("%q: %q, %v", locator, n, err)
			}
			return
		}
		again, err := job.NormalizeLocator(n)
		if err != nil || again != n {
			t.Errorf("%q becomes %q and then %q, %v", locator, n, again, err)
		}
		scheme := job.LocatorScheme(n)
		if scheme == "" || scheme != strings.ToLower(scheme) || strings.ContainsAny(n, "?#") || strings.HasSuffix(n, "/") ||
			strings.Contains(n, "/../") || len(n) > job.MaxName {
			t.Errorf("%q is accepted as %q", locator, n)
		}
		authority, _, _ := strings.Cut(strings.TrimPrefix(n, scheme+"://"), "/")
		if strings.Contains(authority, "@") || scheme == "file" && authority != "" {
			t.Errorf("%q is accepted as %q", locator, n)
		}
	})
}
