package client

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Setting is one replicated setting.
type Setting struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Default   string `json:"default"`
	Type      string `json:"type"` // bool, integer, duration, or the words allowed: a|b
	Help      string `json:"help"`
	ChangedAt Time   `json:"changed_at,omitzero"`
	ChangedBy string `json:"changed_by,omitempty"`
}

// SettingValue is a value to set.
type SettingValue struct{ Name, Value string }

// SettingChange is one change in the history of settings.
type SettingChange struct {
	RaftIndex int64  `json:"raft_index"`
	At        Time   `json:"at,omitzero"`
	Actor     string `json:"actor"`
	Name      string `json:"name"`
	Old       string `json:"old_value"`
	New       string `json:"new_value"`
	Reset     bool   `json:"reset"`
}

// Settings returns all settings by name.
func (c *Client) Settings(ctx context.Context) ([]Setting, error) {
	return c.settings(ctx, read("listing settings"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListSettingsResponse, error) {
		return a.ListSettings(ctx, &admin.TListRequest{Ctx: c.caller()})
	})
}

// SetSettings changes all the settings given, or none, and returns those changed.
func (c *Client) SetSettings(ctx context.Context, values []SettingValue) ([]Setting, error) {
	request := &admin.TSetSettingsRequest{Ctx: c.caller()}
	for _, v := range values {
		request.Values = append(request.Values, &admin.TSettingValue{Name: v.Name, Value: v.Value})
	}
	return c.settings(ctx, settingsChange(), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListSettingsResponse, error) {
		return a.SetSettings(ctx, request)
	})
}

// ResetSettings gives settings their defaults back, all of them or none.
func (c *Client) ResetSettings(ctx context.Context, names []string) ([]Setting, error) {
	return c.settings(ctx, settingsChange(), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListSettingsResponse, error) {
		return a.ResetSettings(ctx, &admin.TResetSettingsRequest{Ctx: c.caller(), Names: names})
	})
}

// SettingsHistory returns the newest changes first: of one setting, or of all when
// name is empty. Limit is 1..1000; 0 means 100.
func (c *Client) SettingsHistory(ctx context.Context, name string, limit int) ([]SettingChange, error) {
	request := &admin.TSettingsHistoryRequest{Ctx: c.caller(), Name: optional(name)}
	if limit != 0 {
		n, err := int32Of("the limit", limit)
		if err != nil {
			return nil, err
		}
		request.Limit = &n
	}
	answer, err := invoke(ctx, c, read("reading the history of settings"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TSettingsHistoryResponse, error) {
		return a.SettingsHistory(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	out := []SettingChange{}
	for _, s := range answer.Changes {
		out = append(out, SettingChange{
			RaftIndex: s.RaftIndex, At: timeOf(s.AtMs), Actor: s.Actor, Name: s.Name,
			Old: s.OldValue, New: s.NewValue_, Reset: s.IsReset,
		})
	}
	return out, nil
}

func settingsChange() operation {
	op := change("the change of settings")
	op.next = "look with: lancemaster settings list"
	return op
}

func (c *Client) settings(ctx context.Context, op operation, f func(context.Context, *admin.AdminServiceClient) (*admin.TListSettingsResponse, error)) ([]Setting, error) {
	answer, err := invoke(ctx, c, op, f)
	if err != nil {
		return nil, err
	}
	out := []Setting{}
	for _, s := range answer.Settings {
		out = append(out, Setting{
			Name: s.Name, Value: s.Value, Default: s.DefaultValue, Type: s.Type, Help: s.Help,
			ChangedAt: timeOf(s.GetChangedAtMs()), ChangedBy: s.GetChangedBy(),
		})
	}
	return out, nil
}
