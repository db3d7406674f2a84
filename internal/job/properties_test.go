package job_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

var pqBounds = job.PropertyBounds{MaxNumPartitions: 4096, MaxNumSubVectors: 256}

// properties reads "key=value key=value".
func properties(s string) []job.Property {
	var list []job.Property
	for _, word := range strings.Fields(s) {
		key, value, _ := strings.Cut(word, "=")
		list = append(list, job.Property{Key: key, Value: value})
	}
	return list
}

func TestCanonicalProperties(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{
			"num_partitions=2 num_sub_vectors=4",
			`{"index_type":"IVF_PQ","metric":"l2","num_bits":"8","num_partitions":"2","num_sub_vectors":"4"}`,
		},
		{
			"NUM_SUB_VECTORS=256 Metric=COSINE num_Partitions=4096 num_bits=8",
			`{"index_type":"IVF_PQ","metric":"cosine","num_bits":"8","num_partitions":"4096","num_sub_vectors":"256"}`,
		},
		{
			"num_partitions=0002 num_sub_vectors=04 metric=dot num_bits=08",
			`{"index_type":"IVF_PQ","metric":"dot","num_bits":"8","num_partitions":"2","num_sub_vectors":"4"}`,
		},
	} {
		got, refusal := job.CanonicalProperties(job.IndexIVFPQ, properties(tt.given), pqBounds)
		if refusal != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.given, got, refusal, tt.want)
		}
	}
	for _, none := range []job.IndexType{job.IndexBTree, job.IndexBitmap} {
		if got, refusal := job.CanonicalProperties(none, nil, pqBounds); got != "" || refusal != nil {
			t.Errorf("%s: %q, %v", none, got, refusal)
		}
	}
}

func TestCanonicalPropertiesRefuses(t *testing.T) {
	const pq = "num_partitions=2 num_sub_vectors=4 "
	for _, tt := range []struct {
		index       job.IndexType
		given, want string
	}{
		{job.IndexIVFPQ, "", "needs the property num_partitions"},
		{job.IndexIVFPQ, "num_sub_vectors=4", "needs the property num_partitions"},
		{job.IndexIVFPQ, "num_partitions=2", "needs the property num_sub_vectors"},
		{job.IndexIVFPQ, "num_partitions=0 num_sub_vectors=4", "num_partitions must be a number from 1 to 4096"},
		{job.IndexIVFPQ, "num_partitions=4097 num_sub_vectors=4", "num_partitions must be a number from 1 to 4096"},
		{job.IndexIVFPQ, "num_partitions=2 num_sub_vectors=0", "num_sub_vectors must be a number from 1 to 256"},
		{job.IndexIVFPQ, "num_partitions=2 num_sub_vectors=257", "num_sub_vectors must be a number from 1 to 256"},
		{job.IndexIVFPQ, "num_partitions=-2 num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, "num_partitions=+2 num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, "num_partitions=2.0 num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, "num_partitions=0x2 num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, "num_partitions=1_0 num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, "num_partitions= num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, "num_partitions=99999999999999999999 num_sub_vectors=4", "num_partitions must be"},
		{job.IndexIVFPQ, pq + "num_bits=4", "num_bits must be 8"},
		{job.IndexIVFPQ, pq + "num_bits=16", "num_bits must be 8"},
		{job.IndexIVFPQ, pq + "metric=hamming", "metric must be l2, cosine or dot"},
		{job.IndexIVFPQ, pq + "metric=", "metric must be l2, cosine or dot"},
		{job.IndexIVFPQ, pq + "num_partitions=2", `"num_partitions" is given more than once`},
		{job.IndexIVFPQ, pq + "Num_Partitions=2", `"num_partitions" is given more than once`},
		{job.IndexIVFPQ, pq + "METRIC=l2 metric=l2", `"metric" is given more than once`},
		{job.IndexIVFPQ, pq + "index_type=IVF_PQ", `no property "index_type"`},
		{job.IndexIVFPQ, pq + "nprobes=3", `no property "nprobes"`},
		{job.IndexIVFPQ, pq + "=3", `no property ""`},
		{job.IndexIVFPQ, pq + strings.Repeat("x", 4000) + "=3", `xxx..."`},
		{job.IndexBTree, "metric=l2", "BTREE takes no properties"},
		{job.IndexBitmap, "x=1", "BITMAP takes no properties"},
		{"", "", "none of IVF_PQ, BTREE, BITMAP"},
		{"HNSW", "", "none of IVF_PQ, BTREE, BITMAP"},
	} {
		got, refusal := job.CanonicalProperties(tt.index, properties(tt.given), pqBounds)
		var err error
		if refusal != nil {
			err = refusal
		}
		wantRefusal(t, tt.given, err, tt.want)
		if got != "" || refusal != nil && len(refusal.Error()) > 500 {
			t.Errorf("%s: %q, and %d bytes of refusal", tt.given, got, len(refusal.Error()))
		}
	}
}

func TestParseIndexType(t *testing.T) {
	for text, want := range map[string]job.IndexType{
		"ivf_pq": job.IndexIVFPQ, "IVF_PQ": job.IndexIVFPQ, "Ivf_Pq": job.IndexIVFPQ, "btree": job.IndexBTree,
		"Bitmap": job.IndexBitmap, "": "", "ivfpq": "", "inverted": "", " btree": "",
	} {
		if got, ok := job.ParseIndexType(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

func FuzzProperties(f *testing.F) {
	f.Add("num_partitions=2 num_sub_vectors=4", "metric", "l2")
	f.Add("num_partitions=2 NUM_SUB_VECTORS=4 num_bits=8", "", "")
	f.Add("num_partitions=2", "num_sub_vectors", "\"}")
	f.Fuzz(func(t *testing.T, given, key, value string) {
		list := append(properties(given), job.Property{Key: key, Value: value})
		text, refusal := job.CanonicalProperties(job.IndexIVFPQ, list, pqBounds)
		if refusal != nil {
			if text != "" || refusal.Code != job.CodeInvalid {
				t.Errorf("%q, %v", text, refusal)
			}
			return
		}
		var stored map[string]string
		if err := json.Unmarshal([]byte(text), &stored); err != nil || len(text) > job.MaxProperties {
			t.Fatalf("%s: %v", text, err)
		}
		// encoding/json sorts the keys of a map: the stored form is sorted and has no
		// other bytes.
		if again, err := json.Marshal(stored); err != nil || string(again) != text {
			t.Errorf("%s is not canonical: %s, %v", text, again, err)
		}
		for name, most := range map[string]int{"num_partitions": 4096, "num_sub_vectors": 256, "num_bits": 8} {
			if n, err := strconv.Atoi(stored[name]); err != nil || n < 1 || n > most {
				t.Errorf("%s: %s", name, text)
			}
		}
		if stored["index_type"] != "IVF_PQ" || !slices.Contains([]string{"l2", "cosine", "dot"}, stored["metric"]) || len(stored) != 5 {
			t.Errorf("%s", text)
		}
		// Its own stored form, given back, is stored the same.
		delete(stored, "index_type")
		var back []job.Property
		for k, v := range stored {
			back = append(back, job.Property{Key: k, Value: v})
		}
		if again, refusal := job.CanonicalProperties(job.IndexIVFPQ, back, pqBounds); refusal != nil || again != text {
			t.Errorf("%s becomes %s, %v", text, again, refusal)
		}
	})
}
