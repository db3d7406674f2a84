package rpc

import (
	"fmt"
	"unicode/utf8"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Coarse bounds of an admin request's texts; the domain holds its own, narrower ones against them.
const (
	maxText     = 4096
	maxContract = 256 << 10
)

func invalid(field, why string) *job.Refusal {
	return &job.Refusal{Code: job.CodeInvalid, Message: field + " " + why, Next: "correct the request and send it again"}
}

// maxShown bounds what a message repeats of a name that does not exist.
const maxShown = 128

// shown is a name of the caller's as a message may repeat it.
func shown(name string) string { return cleanText(name, maxShown) }

// fields reads a request's fields and keeps the first refusal.
type fields struct{ refusal *job.Refusal }

func (f *fields) refuse(field, why string) {
	if f.refusal == nil {
		f.refusal = invalid(field, why)
	}
}

// bounded reads a text of at most so many bytes; an absent one is empty.
func (f *fields) bounded(field string, v *string, most int) string {
	switch {
	case v == nil:
		return ""
	case len(*v) > most:
		f.refuse(field, fmt.Sprintf("is %d bytes long; at most %d are allowed", len(*v), most))
	case !utf8.ValidString(*v):
		f.refuse(field, "is not valid UTF-8 text")
	}
	return *v
}

func (f *fields) optionalText(field string, v *string) string { return f.bounded(field, v, maxText) }

// text reads a text that must be there; whether it may be empty is the domain's to say.
func (f *fields) text(field string, v *string) string {
	if v == nil {
		f.refuse(field, "is missing")
		return ""
	}
	return f.optionalText(field, v)
}

// named reads a short text that must be there and not be empty.
func (f *fields) named(field string, v *string) string {
	if v == nil || *v == "" {
		f.refuse(field, "is missing")
		return ""
	}
	return f.bounded(field, v, maxNodeName)
}

// positive reads a number that must be there and above zero.
func (f *fields) positive(field string, v *int64) int64 {
	switch {
	case v == nil:
		f.refuse(field, "is missing")
		return 0
	case *v <= 0:
		f.refuse(field, fmt.Sprintf("is %d; it must be positive", *v))
	}
	return *v
}

// upTo reads an optional number from 1 to most.
func (f *fields) upTo(field string, v *int64, most, otherwise int64) int64 {
	if v == nil {
		return otherwise
	}
	if *v < 1 || *v > most {
		f.refuse(field, fmt.Sprintf("is %d; it must be between 1 and %d", *v, most))
	}
	return *v
}

func (f *fields) port(field string, v *int32) int32 {
	switch {
	case v == nil:
		f.refuse(field, "is missing")
		return 0
	case *v < 1 || *v > 65535:
		f.refuse(field, fmt.Sprintf("is %d; it must be between 1 and 65535", *v))
	}
	return *v
}

func wide(v *int32) *int64 {
	if v == nil {
		return nil
	}
	w := int64(*v)
	return &w
}

// optional is how an empty text goes over the wire where the field may be absent.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func optionalMillis(m job.Millis) *int64 {
	if m == 0 {
		return nil
	}
	v := int64(m)
	return &v
}

func optionalInt32(v int32) *int32 {
	if v == 0 {
		return nil
	}
	return &v
}
