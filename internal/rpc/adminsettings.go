package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// ListSettings returns every setting, by name.
func (a *Admin) ListSettings(ctx context.Context, req *admin.TListRequest) (*admin.TListSettingsResponse, error) {
	return serve(ctx, a, "listSettings", req, (*remote).ListSettings, func(call) (*admin.TListSettingsResponse, error) {
		return a.settings()
	})
}

// SetSettings changes settings: all of them or none.
func (a *Admin) SetSettings(ctx context.Context, req *admin.TSetSettingsRequest) (*admin.TListSettingsResponse, error) {
	return serve(ctx, a, "setSettings", req, (*remote).SetSettings, func(c call) (*admin.TListSettingsResponse, error) {
		values := make([]job.SettingValue, 0, len(req.Values))
		for _, v := range req.Values {
			canonical, refusal := job.CheckSetting(v.Name, v.Value)
			if refusal != nil {
				return nil, refusal
			}
			values = append(values, job.SettingValue{Name: v.Name, Value: canonical})
		}
		return a.changeSettings(c, values, false)
	})
}

// ResetSettings puts settings back to their defaults.
func (a *Admin) ResetSettings(ctx context.Context, req *admin.TResetSettingsRequest) (*admin.TListSettingsResponse, error) {
	return serve(ctx, a, "resetSettings", req, (*remote).ResetSettings, func(c call) (*admin.TListSettingsResponse, error) {
		values := make([]job.SettingValue, 0, len(req.Names))
		defs := job.SettingDefs()
		for _, name := range req.Names {
			i := slices.IndexFunc(defs, func(d job.SettingDef) bool { return d.Name == name })
			if i < 0 {
				_, refusal := job.CheckSetting(name, "") // says it as it does for a change
				return nil, refusal
			}
			values = append(values, job.SettingValue{Name: name, Value: defs[i].Default})
		}
		return a.changeSettings(c, values, true)
	})
}

func (a *Admin) changeSettings(c call, values []job.SettingValue, reset bool) (*admin.TListSettingsResponse, error) {
	if len(values) == 0 {
		return nil, invalid("the request", "names no setting")
	}
	slices.SortFunc(values, func(x, y job.SettingValue) int { return strings.Compare(x.Name, y.Name) })
	for i := 1; i < len(values); i++ {
		if values[i].Name == values[i-1].Name {
			return nil, invalid("the setting "+values[i].Name, "is given twice")
		}
	}
	if _, err := a.cfg.Journal.Propose(c, job.ChangeSettings{Header: a.header(c), Values: values, Reset: reset}); err != nil {
		return nil, err
	}
	return a.settings()
}

// settings reads all settings with who changed each of them last. The first value of a setting is
// nobody's change: it came with the cluster's formation, or with the level that brought the setting.
func (a *Admin) settings() (*admin.TListSettingsResponse, error) {
	present := map[string]string{}
	a.cfg.State.Read(func(v View) {
		for _, s := range v.SettingValues() {
			present[s.Name] = s.Value
		}
	})
	changes, err := a.cfg.State.Settings()
	if err != nil {
		return nil, inside(err)
	}
	changed := map[string]job.SettingChange{}
	for _, c := range changes {
		if c.Old != "" {
			changed[c.Name] = c
		}
	}
	answer := &admin.TListSettingsResponse{Settings: []*admin.TSetting{}}
	for _, d := range job.SettingDefs() {
		s := &admin.TSetting{Name: d.Name, Value: d.Default, DefaultValue: d.Default, Type: d.Form(), Help: d.Help}
		if value, ok := present[d.Name]; ok {
			s.Value = value
		}
		if c, ok := changed[d.Name]; ok {
			s.ChangedAtMs, s.ChangedBy = optionalMillis(c.At), optional(c.Actor)
		}
		answer.Settings = append(answer.Settings, s)
	}
	return answer, nil
}

// SettingsHistory returns who changed what, newest first.
func (a *Admin) SettingsHistory(ctx context.Context, req *admin.TSettingsHistoryRequest) (*admin.TSettingsHistoryResponse, error) {
	return serve(ctx, a, "settingsHistory", req, (*remote).SettingsHistory, func(call) (*admin.TSettingsHistoryResponse, error) {
		var f fields
		name := f.optionalText("name", req.Name)
		limit := f.upTo("limit", wide(req.Limit), job.MaxPageLimit, job.DefaultPageLimit)
		if f.refusal != nil {
			return nil, f.refusal
		}
		if name != "" && !slices.ContainsFunc(job.SettingDefs(), func(d job.SettingDef) bool { return d.Name == name }) {
			return nil, &job.Refusal{
				Code: job.CodeNotFound, Message: fmt.Sprintf("there is no setting %q", shown(name)),
				Next: "list them with: lancemaster settings list",
			}
		}
		changes, err := a.cfg.State.SettingsHistory(name, int(limit))
		if err != nil {
			return nil, inside(err)
		}
		answer := &admin.TSettingsHistoryResponse{Changes: make([]*admin.TSettingChange, 0, len(changes))}
		for _, c := range changes {
			answer.Changes = append(answer.Changes, &admin.TSettingChange{
				RaftIndex: int64(c.Index), AtMs: int64(c.At), Actor: c.Actor, Name: c.Name,
				OldValue: c.Old, NewValue_: c.New, IsReset: c.Reset,
			})
		}
		return answer, nil
	})
}
