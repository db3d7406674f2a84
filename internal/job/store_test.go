package job_test

import (
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

func TestStoreFor(t *testing.T) {
	options := func(given ...string) *job.Catalog {
		c := &job.Catalog{}
		for _, option := range given {
			key, value, _ := strings.Cut(option, "=")
			c.Options = append(c.Options, job.Option{Key: key, Value: value})
		}
		return c
	}
	for _, tt := range []struct {
		name    string
		catalog *job.Catalog
		locator string
		want    string
	}{
		{"no catalog", nil, "s3://b/t", "s3"},
		{"no catalog, local", nil, "file:///t", "file"},
		{"plain", &job.Catalog{}, "s3://b/t", "s3"},
		{"plain, local", &job.Catalog{}, "file:///t", "file"},
		{"explicit", &job.Catalog{Store: "Minio"}, "s3://b/t", "Minio"},
		{"explicit wins over file", &job.Catalog{Store: "nfs"}, "file:///t", "nfs"},
		{"explicit wins over an endpoint", &job.Catalog{Store: "m", Options: options("endpoint=http://e").Options}, "s3://b/t", "m"},
		{"endpoint", options("endpoint=HTTP://Minio:9000//"), "s3://b/t", "http://minio:9000"},
		{"endpoint of a local dataset", options("endpoint=http://e"), "file:///t", "file"},
		{"key in any case", options("AWS_Endpoint_URL=http://e"), "s3://b/t", "http://e"},
		{"azure", options("azure_endpoint=http://e/"), "az://c/t", "http://e"},
		{"google", options("google_endpoint=http://e"), "gs://b/t", "http://e"},
		{"the plainest key first", options("aws_endpoint=http://b", "endpoint=http://a"), "s3://b/t", "http://a"},
		{"another option", options("region=http://e"), "s3://b/t", "s3"},
	} {
		if got := job.StoreFor(tt.catalog, tt.locator); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
