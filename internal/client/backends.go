package client

import (
	"context"
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Backend is a process that runs index jobs, as registered and as the leader's
// heartbeats see it.
type Backend struct {
	ID            int64   `json:"backend_id"`
	Host          string  `json:"host"`
	Port          int32   `json:"be_port"`
	HeartbeatPort int32   `json:"heartbeat_port"`
	State         string  `json:"state"` // active or draining
	Labels        []Label `json:"labels"`
	CreatedAt     Time    `json:"created_at,omitzero"`
	UpdatedAt     Time    `json:"updated_at,omitzero"`
	UpdatedBy     string  `json:"updated_by"`
	SlotsHeld     int64   `json:"slots_held"`
	Alive         bool    `json:"alive"`
	ProcessEpoch  int64   `json:"process_epoch,omitempty"`
	LastOKAt      Time    `json:"last_ok_at,omitzero"`
	LastError     string  `json:"last_error,omitempty"`
	Version       string  `json:"version,omitempty"`
}

// Label is a key and a value.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// NewBackend is a backend to register.
type NewBackend struct {
	Host          string
	Port          int // dispatch; 9060 on a backend's defaults
	HeartbeatPort int // 9050 on a backend's defaults
	Labels        []Label
}

// AddBackend registers a backend.
func (c *Client) AddBackend(ctx context.Context, b NewBackend) (*Backend, error) {
	port, err := int32Of("the port", b.Port)
	if err != nil {
		return nil, err
	}
	heartbeat, err := int32Of("the heartbeat port", b.HeartbeatPort)
	if err != nil {
		return nil, err
	}
	request := &admin.TAddBackendRequest{Ctx: c.caller(), Host: &b.Host, BePort: &port, HeartbeatPort: &heartbeat}
	for _, l := range b.Labels {
		request.Labels = append(request.Labels, &admin.TLabel{Key: l.Key, Value: l.Value})
	}
	op := change("the registration")
	op.next = "look with: lancemaster backend list"
	return c.oneBackend(ctx, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TBackend, error) {
		return a.AddBackend(ctx, request)
	})
}

// Backends returns all registered backends by id.
func (c *Client) Backends(ctx context.Context) ([]Backend, error) {
	answer, err := invoke(ctx, c, read("listing backends"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListBackendsResponse, error) {
		return a.ListBackends(ctx, &admin.TListRequest{Ctx: c.caller()})
	})
	if err != nil {
		return nil, err
	}
	out := []Backend{}
	for _, b := range answer.Backends {
		out = append(out, *backendOf(b))
	}
	return out, nil
}

// RemoveBackend removes a backend whose slots are all free.
func (c *Client) RemoveBackend(ctx context.Context, id int64) error {
	op := change("the removal of the backend")
	op.next = "look with: lancemaster backend list"
	_, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TRemoveResponse, error) {
		return a.RemoveBackend(ctx, c.backend(id))
	})
	return err
}

// DrainBackend sends no new jobs to a backend; one that is draining stays so.
func (c *Client) DrainBackend(ctx context.Context, id int64) (*Backend, error) {
	return c.oneBackend(ctx, again("the drain", id), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TBackend, error) {
		return a.DrainBackend(ctx, c.backend(id))
	})
}

// UndrainBackend lets new jobs be sent to a backend again.
func (c *Client) UndrainBackend(ctx context.Context, id int64) (*Backend, error) {
	return c.oneBackend(ctx, again("the end of the drain", id), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TBackend, error) {
		return a.UndrainBackend(ctx, c.backend(id))
	})
}

func again(name string, id int64) operation {
	op := change(name)
	op.next = fmt.Sprintf("look with: lancemaster backend list; repeat it if backend %d is not as wanted", id)
	return op
}

func (c *Client) backend(id int64) *admin.TBackendRequest {
	return &admin.TBackendRequest{Ctx: c.caller(), BackendID: &id}
}

func (c *Client) oneBackend(ctx context.Context, op operation, f func(context.Context, *admin.AdminServiceClient) (*admin.TBackend, error)) (*Backend, error) {
	b, err := invoke(ctx, c, op, f)
	if err != nil {
		return nil, err
	}
	return backendOf(b), nil
}
