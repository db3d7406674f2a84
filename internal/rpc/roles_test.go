package rpc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// rolesOfMethods says again who may call what, to be compared with the table.
var rolesOfMethods = map[job.Role]string{
	job.RoleRead: "status getJob listJobs jobHistory waitJob explainJob watchJobs inspectDataset getCatalog listCatalogs " +
		"listBackends listSettings settingsHistory clusterStatus",
	job.RoleSubmit: "submit",
	job.RoleOperate: "cancelJob releaseSlot forceReleaseJob putCatalog removeCatalog addBackend removeBackend drainBackend undrainBackend " +
		"setSettings resetSettings",
	job.RoleAdmin: "addMember removeMember replaceMember transferLeader reopenCluster snapshotBegin snapshotRead snapshotEnd " +
		"createToken listTokens revokeToken",
}

// Every method of the service needs a role, whoever forgets it, and no lower one will do.
func TestEveryMethodNeedsItsRole(t *testing.T) {
	b := newBench(t)
	processor := admin.NewAdminServiceProcessor(b.admin)
	to := NewForwarded(b.reports, b.admin)
	var named []string
	for role, list := range rolesOfMethods {
		for _, name := range strings.Fields(list) {
			named = append(named, name)
			for _, with := range []job.Role{0, job.RoleRead, job.RoleSubmit, job.RoleOperate, job.RoleAdmin, 5} {
				allowed := with >= role && with <= job.RoleAdmin
				e := callEmpty(t, to, name, Principal{Name: "x", Role: with, Verified: true})
				refused := e != nil && e.Code == admin.TAdminErrorCode_PERMISSION
				if refused == allowed {
					t.Errorf("%s with the role %s: answered %v", name, with, e)
				}
				if refused && !strings.HasPrefix(e.Message, methods[name].doing+" needs the role "+role.String()) {
					t.Errorf("%s: told %q", name, e.Message)
				}
			}
			// The handler calls itself by its own name, or it would be held to another's role.
			if n := testutil.ToFloat64(b.admin.cfg.Metrics.requests.WithLabelValues(serviceAdmin, name, "PERMISSION")); n < 2 {
				t.Errorf("%s: %v refusals were counted under its name", name, n)
			}
		}
	}
	slices.Sort(named)
	service := slices.Sorted(maps.Keys(processor.ProcessorMap()))
	if !slices.Equal(named, service) {
		t.Errorf("the roles are of %v,\nthe service has %v", named, service)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(methods)), service) {
		t.Errorf("the table has %v,\nthe service has %v", slices.Sorted(maps.Keys(methods)), service)
	}
	for name, m := range methods {
		if verb, what, _ := strings.Cut(m.doing, " "); !strings.HasSuffix(verb, "ing") || what == "" {
			t.Errorf("%s: %q is not what its caller does", name, m.doing)
		}
		if (m.access == writes) != (m.lost != "") {
			t.Errorf("%s: a change, and only a change, says what to do when its answer is lost", name)
		}
	}
	// An empty request makes no command but one, which the state machine refuses.
	if got := b.commands(); !slices.Equal(got, []string{"REOPEN"}) {
		t.Errorf("proposed %v", got)
	}
}

// callEmpty makes one call with an empty request, which every method refuses or answers; nil is an answer.
func callEmpty(t *testing.T, to *Forwarded, name string, as Principal) *admin.TAdminError {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing waits
	reply, err := to.Serve(ctx, serviceAdmin, as, callOf(t, "binary", name, emptyArgs{}))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	p := protocol("binary", reply)
	if _, kind, _, err := p.ReadMessageBegin(ctx); err != nil || kind != thrift.REPLY {
		t.Fatalf("%s: replied %q", name, reply)
	}
	if _, err := p.ReadStructBegin(ctx); err != nil {
		t.Fatal(err)
	}
	_, _, field, err := p.ReadFieldBegin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if field == 0 {
		return nil
	}
	e := admin.NewTAdminError()
	if err := e.Read(ctx, p); err != nil {
		t.Fatal(err)
	}
	return e
}

// emptyArgs are the arguments of any method, with a request that has no fields.
type emptyArgs struct{}

func (emptyArgs) Read(context.Context, thrift.TProtocol) error { return nil }

func (emptyArgs) Write(ctx context.Context, p thrift.TProtocol) error {
	return errors.Join(
		p.WriteStructBegin(ctx, ""), p.WriteFieldBegin(ctx, "", thrift.STRUCT, 1),
		p.WriteStructBegin(ctx, ""), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx),
		p.WriteFieldEnd(ctx), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
}

// knows maps tokens to principals.
type knows map[string]Principal

func (k knows) Authenticate(_ context.Context, token string) (Principal, error) {
	p, ok := k[token]
	if !ok {
		return Principal{}, &job.Refusal{Code: job.CodeUnauthenticated, Message: "the token is not known", Next: "give another one"}
	}
	return p, nil
}

func (knows) Confirm(Principal) error { return nil }

// forgot is knows, of which some tokens have been revoked by the time that the leader looks.
type forgot struct {
	knows
	revoked job.Hash
}

func (f forgot) Confirm(p Principal) error {
	if p.Token == f.revoked {
		return &job.Refusal{Code: job.CodeUnauthenticated, Message: "the token was revoked", Next: "give another one"}
	}
	return nil
}

type cannotTell struct{}

func (cannotTell) Confirm(Principal) error { return nil }

func (cannotTell) Authenticate(context.Context, string) (Principal, error) {
	return Principal{}, errors.New("reading /some/path failed")
}

// Who calls is asked once, stands in the history, and decides what may be done.
func TestAuthentication(t *testing.T) {
	b := newBench(t)
	r := b.admit(t, "a", job.MutationCreate)
	id := int64(r.ID)
	request := func(token string) *admin.TJobVerbRequest {
		return &admin.TJobVerbRequest{Ctx: &admin.TRequestContext{Token: &token, ClientName: ptr("joe")}, JobID: &id}
	}
	b.admin.cfg.Authenticator = knows{
		"reader": {Name: "dash", Role: job.RoleRead, Verified: true}, "ops": {Name: "ops", Role: job.RoleOperate, Verified: true},
		"": {Role: job.RoleRead},
	}
	for token, want := range map[string]admin.TAdminErrorCode{
		"wrong": admin.TAdminErrorCode_UNAUTHENTICATED, "reader": admin.TAdminErrorCode_PERMISSION, "": admin.TAdminErrorCode_PERMISSION,
	} {
		_, err := b.admin.CancelJob(t.Context(), request(token))
		e := refusal(t, err, want)
		if token == "reader" && !strings.Contains(e.Message, "dash has the role read") || token == "" && !strings.Contains(e.Message, "unverified:joe") {
			t.Errorf("%q: told %q", token, e.Message)
		}
		if e.GetNextStep() == "" {
			t.Errorf("%q: no next step", token)
		}
	}
	if _, err := b.admin.GetJob(t.Context(), &admin.TGetJobRequest{JobID: &id}); err != nil {
		t.Errorf("nobody in particular may read: %v", err)
	}
	if _, err := b.admin.CancelJob(t.Context(), request("ops")); err != nil {
		t.Fatal(err)
	}
	events, _, _ := b.History(r.ID)
	if actor := events[len(events)-1].Actor; actor != "ops" {
		t.Errorf("the history names %q", actor)
	}
	b.admin.cfg.Authenticator = cannotTell{}
	_, err := b.admin.CancelJob(t.Context(), request("ops"))
	if e := refusal(t, err, admin.TAdminErrorCode_UNAVAILABLE); strings.Contains(e.Message, "/some/path") {
		t.Errorf("told %q", e.Message)
	}
	// A principal that the connection brought is not asked for again.
	ctx := WithPrincipal(t.Context(), Principal{Name: "cert", Role: job.RoleRead, Verified: true})
	if _, err := b.admin.GetJob(ctx, &admin.TGetJobRequest{JobID: &id}); err != nil {
		t.Error(err)
	}
}

// A name that nobody vouches for cannot pass for one that is vouched for.
func TestActors(t *testing.T) {
	for want, p := range map[string]Principal{
		"ops": {Name: "ops", Verified: true}, "unverified:ops": {Name: "ops"}, "unverified:anonymous": {}, "anonymous": {Verified: true},
		"unverified:a b": {Name: " a\nb\x00"},
	} {
		if got := p.actor(); got != want {
			t.Errorf("%+v acts as %q, want %q", p, got, want)
		}
	}
}
