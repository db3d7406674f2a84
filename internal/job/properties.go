package job

import (
	"fmt"
	"strconv"
	"strings"
)

// PropertyBounds are the upper bounds on an IVF_PQ index's numbers, as the
// settings had them at admission.
type PropertyBounds struct{ MaxNumPartitions, MaxNumSubVectors int32 }

// Bounds returns the bounds in force.
func (s Settings) Bounds() PropertyBounds {
	return PropertyBounds{MaxNumPartitions: s.MaxNumPartitions, MaxNumSubVectors: s.MaxNumSubVectors}
}

// The metrics of an IVF_PQ index.
const (
	MetricL2     = "l2"
	MetricCosine = "cosine"
	MetricDot    = "dot"
)

// IVFPQ are the properties of an IVF_PQ index.
type IVFPQ struct {
	Metric        string
	NumBits       int32
	NumPartitions int32
	NumSubVectors int32
}

// JSON returns the stored form, as the wire has it: sorted keys, string values,
// the index type among them, every default made explicit.
func (p IVFPQ) JSON() string {
	// No value needs escaping: a metric is one of three words.
	return fmt.Sprintf(`{"index_type":%q,"metric":%q,"num_bits":"%d","num_partitions":"%d","num_sub_vectors":"%d"}`,
		IndexIVFPQ, p.Metric, p.NumBits, p.NumPartitions, p.NumSubVectors)
}

// pqBits is the only size of a product quantizer's code.
const pqBits = 8

// ParseIndexType reads the name of an index type in any case.
func ParseIndexType(s string) (IndexType, bool) {
	switch t := IndexType(upper(s)); t {
	case IndexIVFPQ, IndexBTree, IndexBitmap:
		return t, true
	default:
		return "", false
	}
}

// ParseIVFPQ reads the properties of an IVF_PQ index. Keys and the metric are read
// in any case; an unknown or repeated key is refused. metric defaults to l2 and
// num_bits to 8, which is its only value; the two numbers are required.
func ParseIVFPQ(properties []Property, bounds PropertyBounds) (IVFPQ, *Refusal) {
	pq := IVFPQ{Metric: MetricL2, NumBits: pqBits}
	seen := map[string]bool{}
	for _, p := range properties {
		key := lower(p.Key)
		if seen[key] {
			return IVFPQ{}, invalid("property %q is given more than once", key)
		}
		var refusal *Refusal
		switch key {
		case "metric":
			pq.Metric = lower(p.Value)
			if pq.Metric != MetricL2 && pq.Metric != MetricCosine && pq.Metric != MetricDot {
				refusal = invalid("the property metric must be l2, cosine or dot")
			}
		case "num_bits":
			pq.NumBits, refusal = propertyNumber(key, p.Value, pqBits, pqBits)
		case "num_partitions":
			pq.NumPartitions, refusal = propertyNumber(key, p.Value, 1, bounds.MaxNumPartitions)
		case "num_sub_vectors":
			pq.NumSubVectors, refusal = propertyNumber(key, p.Value, 1, bounds.MaxNumSubVectors)
		default:
			refusal = refuse(CodeInvalid, fmt.Sprintf("IVF_PQ has no property %q", printable(p.Key)),
				"its properties are metric, num_bits, num_partitions and num_sub_vectors")
		}
		if refusal != nil {
			return IVFPQ{}, refusal
		}
		seen[key] = true
	}
	for _, key := range []string{"num_partitions", "num_sub_vectors"} {
		if !seen[key] {
			return IVFPQ{}, refuse(CodeInvalid, "IVF_PQ needs the property "+key, "give it as a positive number")
		}
	}
	return pq, nil
}

// CanonicalProperties returns the one stored form of an index's properties: JSON
// with sorted keys and string values for IVF_PQ, nothing for the types that take
// none.
func CanonicalProperties(t IndexType, properties []Property, bounds PropertyBounds) (string, *Refusal) {
	switch t {
	case IndexIVFPQ:
		pq, refusal := ParseIVFPQ(properties, bounds)
		if refusal != nil {
			return "", refusal
		}
		return pq.JSON(), nil
	case IndexBTree, IndexBitmap:
		if len(properties) > 0 {
			return "", refuse(CodeInvalid, fmt.Sprintf("%s takes no properties", t), "leave them out")
		}
		return "", nil
	default:
		return "", invalid("the index type is none of IVF_PQ, BTREE, BITMAP")
	}
}

// propertyNumber reads a number in plain decimal digits.
func propertyNumber(key, s string, low, high int32) (int32, *Refusal) {
	n, err := strconv.ParseInt(s, 10, 32)
	signed := strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-")
	if err != nil || signed || n < int64(low) || n > int64(high) {
		if low == high {
			return 0, invalid("the property %s must be %d", key, low)
		}
		return 0, invalid("the property %s must be a number from %d to %d", key, low, high)
	}
	return int32(n), nil
}

// upper upper-cases ASCII letters only; see lower.
func upper(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}
