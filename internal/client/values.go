package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// timeLayout is RFC 3339 in UTC with milliseconds, the precision of the service.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is an instant in UTC with millisecond precision; the zero Time means that
// it has not happened. As text it is RFC 3339.
type Time struct{ time.Time }

func timeOf(ms int64) Time {
	if ms == 0 {
		return Time{}
	}
	return Time{time.UnixMilli(ms).UTC()}
}

func (t Time) millis() int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// String returns the time as RFC 3339 in UTC, or "" for the zero Time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// MarshalJSON writes the text of String.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == "" {
		*t = Time{}
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 time: %w", s, err)
	}
	*t = Time{at.UTC()}
	return nil
}

// Duration is a length of time with millisecond precision, as text like 1h30m.
type Duration time.Duration

func durationOf(ms int64) Duration { return Duration(time.Duration(ms) * time.Millisecond) }

// String returns the shortest spelling: 1h rather than 1h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the text of String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}
