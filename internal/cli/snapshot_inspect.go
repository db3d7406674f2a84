package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/client"
)

// snapshotContent is what inspect prints.
type snapshotContent struct {
	File        string            `json:"file"`
	Size        int64             `json:"size_bytes"`
	FileSHA256  string            `json:"sha256"`
	SHA256      string            `json:"content_sha256"`
	CreatedAt   client.Time       `json:"created_at"`
	CreatedBy   string            `json:"created_by"`
	Version     string            `json:"version"`
	ClusterID   int32             `json:"cluster_id"`
	FormedAt    client.Time       `json:"formed_at"`
	Incarnation int64             `json:"incarnation"`
	Level       int32             `json:"feature_level"`
	RaftIndex   uint64            `json:"raft_index"`
	RaftTerm    uint64            `json:"raft_term"`
	Quarantined bool              `json:"quarantined"`
	Jobs        []snapshotJobs    `json:"jobs"`
	OpenJobs    int               `json:"open_jobs"`
	Members     []snapshotMember  `json:"members"`
	Catalogs    []snapshotCatalog `json:"catalogs"`
	Backends    []snapshotBackend `json:"backends"`
	Settings    []snapshotSetting `json:"settings"`
	Tokens      int               `json:"access_tokens"`
}

type snapshotJobs struct {
	State   string `json:"state"`
	Refresh string `json:"refresh"`
	Jobs    int64  `json:"jobs"`
}

type snapshotMember struct {
	NodeID     string `json:"node_id"`
	InstanceID string `json:"instance_id"`
	Address    string `json:"address"`
}

type snapshotCatalog struct {
	Name      string `json:"name"`
	Store     string `json:"store,omitempty"`
	Refresher string `json:"refresher"`
}

type snapshotBackend struct {
	ID      int64  `json:"backend_id"`
	Address string `json:"address"`
	State   string `json:"state"`
}

type snapshotSetting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

func contentOf(file string, c *app.SnapshotContent) *snapshotContent {
	at := func(ms int64) client.Time {
		if ms == 0 {
			return client.Time{}
		}
		return client.Time{Time: time.UnixMilli(ms).UTC()}
	}
	v := &snapshotContent{
		File: file, Size: c.Size, FileSHA256: c.FileSHA256, SHA256: c.SHA256, CreatedAt: at(c.CreatedAt), CreatedBy: c.CreatedBy, Version: c.Version,
		ClusterID: c.ClusterID, FormedAt: at(c.FormedAt), Incarnation: c.Incarnation, Level: c.Level, RaftIndex: c.Index, RaftTerm: c.Term,
		Quarantined: c.Quarantined, OpenJobs: c.OpenJobs, Tokens: c.Tokens,
		Jobs: []snapshotJobs{}, Members: []snapshotMember{}, Catalogs: []snapshotCatalog{}, Backends: []snapshotBackend{}, Settings: []snapshotSetting{},
	}
	for _, n := range c.Jobs {
		v.Jobs = append(v.Jobs, snapshotJobs(n))
	}
	for _, m := range c.Members {
		v.Members = append(v.Members, snapshotMember(m))
	}
	for _, k := range c.Catalogs {
		v.Catalogs = append(v.Catalogs, snapshotCatalog(k))
	}
	for _, b := range c.Backends {
		v.Backends = append(v.Backends, snapshotBackend(b))
	}
	for _, s := range c.Settings {
		v.Settings = append(v.Settings, snapshotSetting(s))
	}
	return v
}

func (a *cli) snapshotInspectCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "inspect FILE",
		Short: "Verify a snapshot file and show what it holds",
		Long: `Verify a snapshot file to its last byte and show what it holds. Every record is read and held to the indexes,
so that a file which this command shows can be restored by this build. No master is asked. Room for its
content is needed in the directory for temporary files, which TMPDIR names. Times are UTC.

` + exitPlain,
		Example: `  lancemaster snapshot inspect backup.lms
  lancemaster snapshot inspect backup.lms -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := refuseCalling(cmd); err != nil {
			return err
		}
		c, err := app.InspectSnapshot(ctx, args[0])
		if err != nil {
			return err
		}
		v := contentOf(args[0], c)
		return a.print(v, func(out *page) { v.card(out) })
	})
}

func (v *snapshotContent) card(out *page) {
	fmt.Fprintf(out, "%s is whole\n", clean(v.File))
	c := newCard(out)
	c.addf("cluster", "%d, formed %s", v.ClusterID, moment(v.FormedAt))
	c.addf("incarnation", "%d", v.Incarnation)
	c.addf("feature level", "%d", v.Level)
	c.addf("ends at", "entry %d of term %d", v.RaftIndex, v.RaftTerm)
	c.addf("made", "%s by %s, version %s", moment(v.CreatedAt), v.CreatedBy, v.Version)
	c.addf("size", "%d bytes", v.Size)
	c.add("sha256", v.FileSHA256)
	if v.Quarantined {
		c.add("quarantined", "yes: it was restored or recovered and not reopened since")
	}
	c.addf("open jobs", "%d", v.OpenJobs)
	c.addf("access tokens", "%d", v.Tokens)
	var members []string
	for _, m := range v.Members {
		members = append(members, m.NodeID+" at "+m.Address)
	}
	c.add("members", strings.Join(members, ", "))
	c.end()
	v.tables(out)
}

func (v *snapshotContent) tables(out *page) {
	if len(v.Jobs) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, plain("STATE", "REFRESH", "JOBS"))
		for _, n := range v.Jobs {
			t.row(n.State, n.Refresh, fmt.Sprint(n.Jobs))
		}
		t.end()
	}
	if len(v.Catalogs) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, plain("CATALOG", "STORE", "REFRESHER"))
		for _, k := range v.Catalogs {
			t.row(k.Name, k.Store, k.Refresher)
		}
		t.end()
	}
	if len(v.Backends) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, plain("BACKEND", "ADDRESS", "STATE"))
		for _, b := range v.Backends {
			t.row(fmt.Sprint(b.ID), b.Address, b.State)
		}
		t.end()
	}
	if len(v.Settings) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, plain("SETTING", "VALUE", "DEFAULT"))
		for _, s := range v.Settings {
			t.row(s.Name, s.Value, s.Default)
		}
		t.end()
	}
}
