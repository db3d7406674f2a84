package client

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// filler gives every leaf of a wire struct a value of its own and remembers how it
// must show in JSON.
type filler struct {
	n    int64
	want map[string]string // field to text
}

func (f *filler) fill(v reflect.Value, name string) {
	f.n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), name+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), name+"[0]")
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d-", f.n))
		f.want[name] = v.String()
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int32:
		f.number(v, name)
	default:
		panic("a kind that the wire does not use: " + v.Kind().String())
	}
}

func (f *filler) number(v reflect.Value, name string) {
	switch {
	case v.Type().PkgPath() != "": // an enum: its first value has a name
		v.SetInt(1)
		f.want[name] = fmt.Sprint(v.Interface())
	case slices.ContainsFunc([]string{"TimeoutMs", "DeadlineMs", "ContactMs", "OffsetMs"}, func(s string) bool { return strings.HasSuffix(name, s) }):
		v.SetInt(f.n * 1000)
		f.want[name] = (time.Duration(f.n) * time.Second).String()
	case strings.HasSuffix(name, "Ms"):
		v.SetInt(time.Date(2026, 1, 1, 0, 0, int(f.n), 7e6, time.UTC).UnixMilli())
		f.want[name] = time.UnixMilli(v.Int()).UTC().Format("2006-01-02T15:04:05.000Z")
	default:
		v.SetInt(700000 + f.n)
		f.want[name] = fmt.Sprint(v.Int())
	}
}

// TestNothingIsLost: each field of what a master answers is in the JSON.
func TestNothingIsLost(t *testing.T) {
	check := func(wire any, convert func() any) {
		t.Helper()
		f := &filler{want: map[string]string{}}
		f.fill(reflect.ValueOf(wire).Elem(), reflect.TypeOf(wire).Elem().Name())
		out, err := json.Marshal(convert())
		if err != nil {
			t.Fatal(err)
		}
		for field, text := range f.want {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s (%s) is not in %s", field, text, out)
			}
		}
		if len(f.want) < 5 || strings.Contains(string(out), "false") {
			t.Errorf("a field is not set: %s", out)
		}
	}
	j := &admin.TJob{}
	check(j, func() any { return jobOf(j) })
	e := &admin.TJobEvent{}
	check(e, func() any { return eventOf(e) })
	k := &admin.TCatalog{}
	check(k, func() any {
		c := catalogOf(k)
		if c.Options[0].Value == "" || c.Options[0].Ref == "" {
			t.Error("an option lost its value or reference")
		}
		return c
	})
	b := &admin.TBackend{}
	check(b, func() any { return backendOf(b) })
	d := &admin.TInspectDatasetResponse{}
	check(d, func() any { return datasetOf(d) })
	m := &admin.TClusterMember{}
	check(m, func() any { return memberOf(m) })
	n := &admin.TStatusResponse{}
	check(n, func() any { return statusOf("", n) })
	s := &admin.TSubmitResponse{}
	check(s, func() any { return submittedOf(s) })
}

func TestUnknownNumbersStayReadable(t *testing.T) {
	j := jobOf(&admin.TJob{State: 9, Refresh: &admin.TJobRefresh{State: 11}})
	if j.State != "unknown(9)" || j.Refresh.State != "unknown(11)" || j.Terminal() {
		t.Errorf("%+v", j)
	}
	if e := refusalOf(&admin.TAdminError{Code: 99, Message: "x"}); e.Code != "unknown(99)" {
		t.Errorf("%+v", e)
	}
}

func TestValuesAsText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", time.Hour: "1h", 24 * time.Hour: "24h",
		90 * time.Minute: "1h30m", 10 * time.Minute: "10m", time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s",
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%s is shown as %q, want %q", d, got, want)
		}
		b, err := json.Marshal(Duration(d))
		var back Duration
		if err != nil || json.Unmarshal(b, &back) != nil || back != Duration(d) {
			t.Errorf("%s does not survive JSON: %s", d, b)
		}
	}
	at := Time{time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.FixedZone("x", 3600))}
	b, err := json.Marshal(at)
	var back Time
	if err != nil || string(b) != `"2026-03-01T11:00:00.005Z"` || json.Unmarshal(b, &back) != nil || !back.Equal(at.Time) {
		t.Errorf("%s, %v", b, err)
	}
	if timeOf(0).String() != "" || timeOf(at.UnixMilli()).millis() != at.UnixMilli() || timeOf(0).millis() != 0 {
		t.Error("milliseconds do not survive")
	}
	if json.Unmarshal([]byte(`"soon"`), &back) == nil || json.Unmarshal([]byte(`""`), &back) != nil || !back.IsZero() {
		t.Error("text that is no time is taken, or the empty text is not")
	}
}
