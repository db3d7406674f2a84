package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Hash sums everything that must be equal on every node that has applied the same
// commands: all buckets in key order, but for the applied position, which also
// moves with entries that are no commands. A bucket with nothing in it counts as
// none, since masters of another build may have more of them or fewer.
func (r *Reader) Hash() (job.Hash, error) {
	sum := sha256.New()
	for n := range bucketCount {
		b := r.bucket(n)
		if first, _ := b.Cursor().First(); first == nil {
			continue
		}
		addPart(sum, bucketNames[n])
		err := b.ForEach(func(k, v []byte) error {
			if n == bucketMeta && bytes.Equal(k, metaApplied) {
				return nil
			}
			addPart(sum, k)
			addPart(sum, v)
			return nil
		})
		if err != nil {
			return job.Hash{}, err
		}
	}
	var h job.Hash
	sum.Sum(h[:0])
	return h, nil
}

func addPart(sum hash.Hash, part []byte) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(part))) //nolint:gosec // bounded by bbolt below 2 GiB
	sum.Write(size[:])
	sum.Write(part)
}
