package lance

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// value is one field's value as it stands on the wire.
type value struct {
	typ    protowire.Type
	number uint64 // VarintType, Fixed32Type, Fixed64Type
	bytes  []byte // BytesType; shared with the buffer it came from
}

// visitor is called with the number of a message's field and its value.
type visitor func(field int32, v value) error

// consumeScalar reads what is neither bytes nor a group. The groups of the first
// protobuf syntax exist nowhere in this format and are refused rather than
// skipped: they alone could nest without bound.
func consumeScalar(num protowire.Number, typ protowire.Type, b []byte) (v value, n int, err error) {
	v.typ = typ
	switch typ {
	case protowire.VarintType:
		v.number, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		v.number, n = protowire.ConsumeFixed64(b)
	case protowire.Fixed32Type:
		var w uint32
		w, n = protowire.ConsumeFixed32(b)
		v.number = uint64(w)
	default:
		return v, 0, fmt.Errorf("field %d has wire type %d, which this format does not use", num, typ)
	}
	if n < 0 {
		return v, 0, fmt.Errorf("field %d: %w", num, protowire.ParseError(n))
	}
	return v, n, nil
}

// walkMessage calls visit for every field of a message in memory. As in any
// protobuf decoder a later scalar replaces an earlier one, and unknown fields are
// the visitor's to ignore.
func walkMessage(b []byte, visit visitor) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		v := value{typ: typ}
		var err error
		if typ == protowire.BytesType {
			if v.bytes, n = protowire.ConsumeBytes(b); n < 0 {
				return fmt.Errorf("field %d: %w", num, protowire.ParseError(n))
			}
		} else if v, n, err = consumeScalar(num, typ, b); err != nil {
			return err
		}
		b = b[n:]
		if err := visit(int32(num), v); err != nil {
			return err
		}
	}
	return nil
}

func (v value) uint64() (uint64, error) {
	if v.typ != protowire.VarintType {
		return 0, fmt.Errorf("wire type %d where a number is expected", v.typ)
	}
	return v.number, nil
}

func (v value) uint32() (uint32, error) {
	n, err := v.uint64()
	if err != nil {
		return 0, err
	}
	if n > math.MaxUint32 {
		return 0, fmt.Errorf("the number %d does not fit 32 bits", n)
	}
	return uint32(n), nil
}

// int32 accepts both spellings of a negative number: sign-extended to ten bytes,
// as the specification asks, and cut to five.
func (v value) int32() (int32, error) {
	n, err := v.uint64()
	if err != nil {
		return 0, err
	}
	return toInt32(n)
}

func toInt32(n uint64) (int32, error) {
	if i := signed(n); i < math.MinInt32 || i > math.MaxUint32 {
		return 0, fmt.Errorf("the number %d does not fit 32 bits", i)
	}
	return int32(n), nil //nolint:gosec // the range is checked above; wrapping is how negative numbers are read
}

func (v value) int64() (int64, error) {
	n, err := v.uint64()
	return signed(n), err
}

// signed reads the two's complement that the wire keeps negative numbers in.
func signed(n uint64) int64 {
	return int64(n)
}

// natural is a number that the format has as u64 and that means nothing from 2^63 on.
func (v value) natural() (int64, error) {
	n, err := v.uint64()
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64 {
		return 0, fmt.Errorf("the number %d is not below 2^63", n)
	}
	return int64(n), nil
}

func (v value) bool() (bool, error) {
	n, err := v.uint64()
	return n != 0, err
}

func (v value) message() ([]byte, error) {
	if v.typ != protowire.BytesType {
		return nil, fmt.Errorf("wire type %d where bytes are expected", v.typ)
	}
	return v.bytes, nil
}

// text returns a copy of at most limit bytes of valid UTF-8.
func (v value) text(limit int) (string, error) {
	b, err := v.message()
	switch {
	case err != nil:
		return "", err
	case len(b) > limit:
		return "", tooMuch("a text of %d bytes; the limit is %d", len(b), limit)
	case !utf8.Valid(b):
		return "", errors.New("a text that is not valid UTF-8")
	}
	return string(b), nil
}

// int32s appends a repeated number, packed or not, up to limit in all.
func (v value) int32s(to []int32, limit int) ([]int32, error) {
	if v.typ != protowire.BytesType {
		n, err := v.int32()
		if err == nil && len(to) >= limit {
			err = tooMuch("more than %d numbers", limit)
		}
		if err != nil {
			return to, err
		}
		return append(to, n), nil
	}
	for b := v.bytes; len(b) > 0; {
		u, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return to, protowire.ParseError(n)
		}
		b = b[n:]
		i, err := toInt32(u)
		if err == nil && len(to) >= limit {
			err = tooMuch("more than %d numbers", limit)
		}
		if err != nil {
			return to, err
		}
		to = append(to, i)
	}
	return to, nil
}
