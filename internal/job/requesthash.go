package job

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// RequestHash identifies the body of a request: all of it but who asks, the
// request id and whether it is a dry run. Each part is preceded by its length, so
// that no two bodies run together to the same bytes. The hash is stored and
// compared for as long as the job is kept: a part that comes later is added at
// the end, and only where it is given.
func RequestHash(s Submission) Hash {
	w := bodyHash{sha256.New()}
	w.text("lancemaster request 1")
	for _, part := range []string{s.Catalog, s.Database, s.Table, s.DatasetURI, s.IndexName, s.IndexType, s.Column} {
		w.text(part)
	}
	w.number(int64(s.Mutation))
	w.flag(s.IfNotExists)
	w.flag(s.IfExists)
	w.number(int64(len(s.Properties)))
	for _, p := range s.Properties {
		w.text(p.Key)
		w.text(p.Value)
	}
	w.number(s.ExecuteDeadline)
	w.flag(s.CallerSnapshot != nil)
	if c := s.CallerSnapshot; c != nil {
		w.number(c.DatasetVersion)
		w.text(c.SchemaContract)
		w.text(c.StoredIndexName)
	}
	return Hash(w.Sum(nil))
}

type bodyHash struct{ hash.Hash }

func (w bodyHash) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	w.Write(b[:])
}

func (w bodyHash) text(s string) {
	w.number(int64(len(s)))
	w.Write([]byte(s))
}

func (w bodyHash) flag(b bool) {
	if b {
		w.number(1)
	} else {
		w.number(0)
	}
}
