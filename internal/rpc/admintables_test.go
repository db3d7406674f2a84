package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

func TestCatalogs(t *testing.T) {
	b := newBench(t)
	req := &admin.TPutCatalogRequest{
		Name: ptr("lake"), Store: ptr("minio"), ExpectedRevision: ptr(int64(0)),
		Options: []*admin.TStorageOption{{Key: "secret_access_key", Ref: ptr("env:KEY")}, {Key: "region", Value: ptr("eu")}},
		Refresher: &admin.TRefresher{
			Kind: "doris", Frontends: []string{"fe:9030"}, User: ptr("root"), PasswordRef: ptr("file:/run/pw"), TLS: ptr(true), TimeoutMs: ptr(int64(5000)),
		},
	}
	got, err := b.admin.PutCatalog(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "lake" || got.GetStore() != "minio" || got.Revision != 1 || len(got.Options) != 2 || got.Options[0].GetValue() != "eu" ||
		got.Options[1].GetRef() != "env:KEY" || got.Options[1].Value != nil || got.Refresher.Kind != "doris" || !got.Refresher.GetTLS() ||
		got.Refresher.GetTimeoutMs() != 5000 || got.UpdatedBy != "unverified:anonymous" {
		t.Errorf("stored %v", got)
	}
	_, err = b.admin.PutCatalog(t.Context(), req)
	wantCode(t, err, admin.TAdminErrorCode_ALREADY_EXISTS)
	b.admit(t, "a", job.MutationCreate)
	list, err := b.admin.ListCatalogs(t.Context(), &admin.TListRequest{})
	if err != nil || len(list.Catalogs) != 2 || list.Catalogs[0].Name != "c" || list.Catalogs[0].OpenJobs != 1 || list.Catalogs[0].UnresolvedJobs != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	if got, err := b.admin.GetCatalog(t.Context(), &admin.TGetCatalogRequest{Name: ptr("lake")}); err != nil || got.Name != "lake" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := b.admin.RemoveCatalog(t.Context(), &admin.TGetCatalogRequest{Name: ptr("lake")}); err != nil {
		t.Error(err)
	}
	_, err = b.admin.RemoveCatalog(t.Context(), &admin.TGetCatalogRequest{Name: ptr("c")})
	wantCode(t, err, admin.TAdminErrorCode_IN_USE)
}

func TestBackends(t *testing.T) {
	b := newBench(t)
	b.live = BackendLiveness{Alive: true, ProcessEpoch: epoch, LastOKAt: 5, LastError: "slow", Version: "v1"}
	got, err := b.admin.AddBackend(t.Context(), &admin.TAddBackendRequest{
		Host: ptr("h2"), BePort: ptr(int32(9060)), HeartbeatPort: ptr(int32(9050)),
		Labels: []*admin.TLabel{{Key: "z", Value: "1"}, {Key: "a", Value: "2"}},
	})
	if err != nil || got.BackendID != 2 || got.State != "active" || got.Labels[0].Key != "a" || !got.Alive || got.GetProcessEpoch() != epoch ||
		got.GetLastOkAtMs() != 5 || got.GetLastError() != "slow" || got.GetVersion() != "v1" {
		t.Fatalf("added %v, %v", got, err)
	}
	if got, err = b.admin.DrainBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(2))}); err != nil || got.State != "draining" {
		t.Errorf("drained %v, %v", got, err)
	}
	if got, err = b.admin.UndrainBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(2))}); err != nil || got.State != "active" {
		t.Errorf("undrained %v, %v", got, err)
	}
	b.running(t, "a")
	b.live = BackendLiveness{}
	list, err := b.admin.ListBackends(t.Context(), &admin.TListRequest{})
	if err != nil || len(list.Backends) != 2 || list.Backends[0].SlotsHeld != 1 || list.Backends[0].Alive || list.Backends[0].ProcessEpoch != nil {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := b.admin.RemoveBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(2))}); err != nil {
		t.Error(err)
	}
	_, err = b.admin.RemoveBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(1))})
	wantCode(t, err, admin.TAdminErrorCode_IN_USE)
}

func TestSettings(t *testing.T) {
	b := newBench(t)
	find := func(l *admin.TListSettingsResponse, name string) *admin.TSetting {
		i := slices.IndexFunc(l.Settings, func(s *admin.TSetting) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("%s is not listed", name)
		}
		return l.Settings[i]
	}
	l, err := b.admin.SetSettings(t.Context(), &admin.TSetSettingsRequest{Values: []*admin.TSettingValue{
		{Name: "dispatch.max_per_round", Value: "5"}, {Name: "dispatch.interval", Value: "90s"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Settings) != len(job.SettingDefs()) || !slices.IsSortedFunc(l.Settings, func(x, y *admin.TSetting) int { return strings.Compare(x.Name, y.Name) }) {
		t.Errorf("listed %d settings", len(l.Settings))
	}
	if s := find(l, "dispatch.interval"); s.Value != "1m30s" || s.DefaultValue != "10s" || s.Type != "duration" || s.Help == "" ||
		s.GetChangedBy() != "unverified:anonymous" || s.GetChangedAtMs() == 0 {
		t.Errorf("listed %v", s)
	}
	for name, values := range map[string][]*admin.TSettingValue{
		"zero":    {{Name: "admission.max_unresolved_global", Value: "0"}},
		"unknown": {{Name: "no.such", Value: "1"}},
		"one bad": {{Name: "dispatch.max_per_round", Value: "9"}, {Name: "dispatch.interval", Value: "never"}},
	} {
		_, err := b.admin.SetSettings(t.Context(), &admin.TSetSettingsRequest{Values: values})
		if e := refusal(t, err, admin.TAdminErrorCode_INVALID); e.Message == "" {
			t.Errorf("%s: no reason", name)
		}
	}
	l, err = b.admin.ResetSettings(t.Context(), &admin.TResetSettingsRequest{Names: []string{"dispatch.max_per_round"}})
	if err != nil || find(l, "dispatch.max_per_round").Value != "16" || find(l, "dispatch.interval").Value != "1m30s" {
		t.Errorf("reset: %v", err)
	}
	h, err := b.admin.SettingsHistory(t.Context(), &admin.TSettingsHistoryRequest{Name: ptr("dispatch.max_per_round"), Limit: ptr(int32(1))})
	if err != nil || len(h.Changes) != 1 || h.Changes[0].OldValue != "5" || h.Changes[0].NewValue_ != "16" || !h.Changes[0].IsReset || h.Changes[0].RaftIndex == 0 {
		t.Errorf("the history is %v, %v", h, err)
	}
	if l, err = b.admin.ListSettings(t.Context(), &admin.TListRequest{}); err != nil || len(l.Settings) == 0 {
		t.Errorf("listed %v", err)
	}
}

func TestInspectDataset(t *testing.T) {
	b := newBench(t)
	b.inspect = func(_ context.Context, r InspectRequest) (Inspection, error) {
		if r != (InspectRequest{DatasetURI: "file:///d", Column: "VEC", Catalog: "c"}) {
			t.Errorf("inspects %+v", r)
		}
		return Inspection{
			Locator: "file:///d", Version: 3, At: 9, Column: "vec", SchemaContract: "{}",
			Fields: []DatasetField{{ID: 1, ParentID: -1, Name: "vec", LogicalType: "fixed_size_list:float:8", Nullable: true}},
			Indexes: []DatasetIndex{
				{Name: "I", Key: "i", Type: "IVF_PQ", Columns: []string{"vec"}, DatasetVersion: 2, Metric: "l2", NumBits: 8, NumSubVectors: 4, UUID: "u", CreatedAt: 7},
				{Name: "B", Key: "b", Type: "BTREE"},
			},
			Fences: []DatasetFence{{IndexKey: "i", Job: 4, Store: "local"}},
		}, nil
	}
	got, err := b.admin.InspectDataset(t.Context(), &admin.TInspectDatasetRequest{DatasetURI: ptr("file:///d"), Column: ptr("VEC"), Catalog: ptr("c")})
	if err != nil || got.Locator != "file:///d" || got.Version != 3 || got.TimestampMs != 9 || got.GetColumn() != "vec" ||
		!got.Fields[0].Nullable || got.Indexes[0].GetMetric() != "l2" || got.Indexes[0].GetNumSubVectors() != 4 ||
		got.Indexes[1].Metric != nil || got.Indexes[1].NumBits != nil || got.Fences[0].JobID != 4 {
		t.Errorf("inspected %v, %v", got, err)
	}
	b.inspect = func(context.Context, InspectRequest) (Inspection, error) {
		return Inspection{}, &job.Refusal{Code: job.CodeDatasetMissing, Message: "none there"}
	}
	_, err = b.admin.InspectDataset(t.Context(), &admin.TInspectDatasetRequest{DatasetURI: ptr("file:///d")})
	wantCode(t, err, admin.TAdminErrorCode_DATASET_MISSING)
}

// Whoever may only read is not told what stands on the leader's disk where no dataset is.
func TestInspectDoesNotTellOfTheDisk(t *testing.T) {
	b := newBench(t)
	answers := func(role job.Role, uri string) map[string]bool {
		seen := map[string]bool{}
		for _, r := range []*job.Refusal{
			{Code: job.CodeDatasetMissing, Message: "there is no folder", Next: "a"},
			{Code: job.CodeDatasetMissing, Message: "there is no folder (a file of that name is in its place)", Next: "a"},
			{Code: job.CodeDatasetMissing, Message: "there is no _versions/", Next: "a"},
			{Code: job.CodeDatasetUnreadable, Message: "permission denied", Next: "b"},
		} {
			b.inspect = func(context.Context, InspectRequest) (Inspection, error) { return Inspection{}, r }
			ctx := WithPrincipal(t.Context(), Principal{Name: "joe", Role: role, Verified: true})
			_, err := b.admin.InspectDataset(ctx, &admin.TInspectDatasetRequest{DatasetURI: &uri})
			if err == nil {
				t.Fatal("inspected what is not there")
			}
			var told *admin.TAdminError
			if !errors.As(err, &told) {
				t.Fatal(err)
			}
			seen[fmt.Sprint(told.Code, told.Message, told.GetNextStep(), told.GetLeaderAddress())] = true
		}
		return seen
	}
	for _, role := range []job.Role{job.RoleRead, job.RoleSubmit} {
		for _, uri := range []string{"file:///etc/shadow", "FILE:///etc", "/etc"} {
			if seen := answers(role, uri); len(seen) != 1 {
				t.Errorf("%s is told of %s %v", role, uri, seen)
			}
		}
	}
	if seen := answers(job.RoleOperate, "file:///d"); len(seen) != 4 {
		t.Errorf("operate is told only %v", seen)
	}
	if seen := answers(job.RoleRead, "s3://b/d"); len(seen) != 4 {
		t.Errorf("of what is not on the disk only %v is told", seen)
	}
}
