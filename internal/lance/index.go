package lance

import (
	"fmt"
	"strings"
	"time"
)

// maxIndexFields bounds the columns of one index; Lance builds on one today.
const maxIndexFields = 64

// IndexType is the kind of an index as the master knows it.
type IndexType string

// The types of index that the master has built, replaced and dropped.
const (
	IVFPQ  IndexType = "IVF_PQ"
	BTree  IndexType = "BTREE"
	Bitmap IndexType = "BITMAP"
	// OtherIndex is every index that is none of the above or does not say enough
	// to be sure: a vector index without product quantization or with a graph
	// on top, or one whose writer left the details out.
	OtherIndex IndexType = ""
)

// Metric is the distance of a vector index.
type Metric string

// The metrics Lance knows, in the order of their numbers.
const (
	L2      Metric = "l2"
	Cosine  Metric = "cosine"
	Dot     Metric = "dot"
	Hamming Metric = "hamming"
)

var metrics = [...]Metric{L2, Cosine, Dot, Hamming}

// Index is one entry of the manifest's index list. An index that was extended
// after it was built has several entries under one name, its segments.
type Index struct {
	UUID           string // 8-4-4-4-12 hex digits; "" when the manifest has none
	Name           string // the stored spelling
	FieldIDs       []int32
	DatasetVersion int64 // the version it was built from
	Type           IndexType
	TypeURL        string // of the details, as stored; "" when there are none

	// For IVF_PQ only; 0 when the manifest does not say. A metric number this
	// reader does not know reads metric(N).
	Metric        Metric
	NumBits       uint32
	NumSubVectors uint32

	CreatedAt time.Time // zero when the manifest does not say
}

func (d *decoder) indexSection(s *section) error {
	wanted := func(field int32) bool { return field == 1 }
	return s.walk(wanted, func(field int32, v value) error {
		if field != 1 {
			return nil
		}
		if len(d.dataset.Indexes) >= maxIndexes {
			return tooMuch("more than %d indexes", maxIndexes)
		}
		index, err := d.indexMetadata(v)
		if err != nil {
			return inPart(fmt.Sprintf("index %d", len(d.dataset.Indexes)+1), err)
		}
		d.dataset.Indexes = append(d.dataset.Indexes, index)
		return nil
	})
}

func (d *decoder) indexMetadata(v value) (Index, error) {
	var (
		index   Index
		details []byte
	)
	b, err := v.message()
	if err != nil {
		return index, err
	}
	err = walkMessage(b, func(field int32, v value) (err error) {
		switch field {
		case 1:
			index.UUID, err = uuid(v, index.UUID)
			return inPart("uuid", err)
		case 2:
			index.FieldIDs, err = v.int32s(index.FieldIDs, maxIndexFields)
			return inPart("field ids", err)
		case 3:
			return inPart("name", d.text(&index.Name, v))
		case 4:
			index.DatasetVersion, err = v.natural()
			return inPart("dataset version", err)
		case 6:
			return inPart("details", d.indexDetails(&index, &details, v))
		case 8:
			index.CreatedAt, err = millis(v)
			return inPart("creation time", err)
		}
		return nil
	})
	if err != nil {
		return index, err
	}
	return index, inPart("details", classify(&index, details))
}

// uuid reads sixteen bytes within a message of their own.
func uuid(v value, before string) (string, error) {
	b, err := v.message()
	if err != nil {
		return before, err
	}
	err = walkMessage(b, func(field int32, v value) error {
		if field != 1 {
			return nil
		}
		u, err := v.message()
		if err != nil {
			return err
		}
		if len(u) != 16 {
			return fmt.Errorf("%d bytes where 16 are expected", len(u))
		}
		before = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		return nil
	})
	return before, err
}

func millis(v value) (time.Time, error) {
	ms, err := v.natural()
	if err != nil {
		return time.Time{}, err
	}
	return wallTime(ms/1000, ms%1000*int64(time.Millisecond))
}

// indexDetails reads a type-tagged message: what it is, and its bytes.
func (d *decoder) indexDetails(index *Index, details *[]byte, v value) error {
	b, err := v.message()
	if err != nil {
		return err
	}
	return walkMessage(b, func(field int32, v value) (err error) {
		switch field {
		case 1:
			return d.text(&index.TypeURL, v)
		case 2:
			*details, err = v.message()
		}
		return err
	})
}

// classify decides the type. The package before the message's name has moved
// between releases, so only the name counts.
func classify(x *Index, details []byte) error {
	name := x.TypeURL[strings.LastIndexAny(x.TypeURL, "./")+1:]
	switch strings.ToLower(name) {
	case "vectorindexdetails":
		return vectorDetails(x, details)
	case "btreeindexdetails":
		x.Type = BTree
	case "bitmapindexdetails":
		x.Type = Bitmap
	}
	return nil
}

// vectorDetails takes an index for IVF_PQ only when its product quantization is
// recorded and nothing else shapes it: writers before that record left the
// details empty for every kind of vector index, and calling one of those equal
// to a requested IVF_PQ would be a guess.
func vectorDetails(x *Index, b []byte) error {
	var (
		metric        uint64
		bits, vectors uint32
		pq, other     bool
	)
	err := walkMessage(b, func(field int32, v value) (err error) {
		switch field {
		case 1:
			metric, err = v.uint64()
			return inPart("metric", err)
		case 4:
			pq = true
			b, err := v.message()
			if err != nil {
				return inPart("product quantization", err)
			}
			return inPart("product quantization", walkMessage(b, func(field int32, v value) (err error) {
				switch field {
				case 1:
					bits, err = v.uint32()
				case 2:
					vectors, err = v.uint32()
				}
				return err
			}))
		case 3, 5, 6, 8: // a graph over the vectors, or another compression
			other = true
		}
		return nil
	})
	if err != nil || !pq || other {
		return err
	}
	x.Type, x.NumBits, x.NumSubVectors = IVFPQ, bits, vectors
	if metric < uint64(len(metrics)) {
		x.Metric = metrics[metric]
	} else {
		x.Metric = Metric(fmt.Sprintf("metric(%d)", metric))
	}
	return nil
}
