package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/config"
)

func (a *cli) snapshotCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "snapshot",
		Short: "Save, inspect and restore snapshots of all that the masters know",
		Long: `Save, inspect and restore snapshots of all that the masters know: jobs and their history, catalogs,
backends, settings, members. Secrets are in none, as the masters store none. docs/backup.md goes through a
backup and a restore step by step.

` + exitPlain,
		Example: `  lancemaster snapshot save backup.lms
  lancemaster snapshot inspect backup.lms`,
	}, a.snapshotSaveCmd(), a.snapshotInspectCmd(), a.snapshotRestoreCmd())
}

// offlineFlags say on which node's data directory a command works.
type offlineFlags struct {
	file, dataDir, nodeID, advertise string
	incarnation                      int64
}

func (a *cli) addOfflineFlags(cmd *cobra.Command) *offlineFlags {
	v := &offlineFlags{}
	f := cmd.Flags()
	f.StringVar(&v.file, "config", a.getenv("LANCEMASTER_CONFIG", ""), "the node's YAML file; LANCEMASTER_CONFIG gives the default")
	f.StringVar(&v.dataDir, "data-dir", "", "the node's data directory (required here, in the file or in LANCEMASTER_DATA_DIR)")
	f.StringVar(&v.nodeID, "node-id", "", "the node's name in the cluster (required here, in the file or in LANCEMASTER_NODE_ID)")
	f.StringVar(&v.advertise, "raft-advertise", "", "host:port of the node as other members will reach it; default: as configured, else raft.listen")
	f.Int64Var(&v.incarnation, "incarnation", 0, "the incarnation that begins; default: the next after those found; give one above any that has been")
	return v
}

// offline reads the node's configuration as serve does. What it would make up must be named here: a
// mistake would be found out late.
func (a *cli) offline(cmd *cobra.Command, v *offlineFlags) (app.Offline, config.Config, error) {
	fail := func(err error) (app.Offline, config.Config, error) { return app.Offline{}, config.Config{}, err }
	if err := filled(cmd, "config", "data-dir", "node-id", "raft-advertise"); err != nil {
		return fail(err)
	}
	overrides := map[string]string{}
	for key, value := range map[string]string{"data_dir": v.dataDir, "node_id": v.nodeID, "raft.advertise": v.advertise} {
		if value != "" {
			overrides[key] = value
		}
	}
	if v.advertise != "" && nowhere(v.advertise) {
		return fail(noAddress(v.advertise))
	}
	cfg, err := config.Load(v.file, a.env, overrides)
	if err != nil {
		return fail(err)
	}
	for _, key := range []struct{ key, flag string }{{"data_dir", "data-dir"}, {"node_id", "node-id"}} {
		if cfg.Sources[key.key] == config.SourceDefault {
			return fail(usagef("--%s is missing, and the node's configuration does not say it either", key.flag))
		}
	}
	if v.incarnation < 0 {
		return fail(usagef("--incarnation %d is negative", v.incarnation))
	}
	address := cfg.RaftAdvertise
	if address == "" {
		address = cfg.RaftListen
	}
	if nowhere(address) {
		return fail(noAddress(address))
	}
	return app.Offline{
		DataDir: cfg.DataDir, NodeID: cfg.NodeID, Address: address, Incarnation: v.incarnation,
		Logger: nodeLogger(a.Err, max(cfg.LogLevel, slog.LevelWarn), cfg.LogFormat),
	}, cfg, nil
}

// nowhere reports whether an address names no port of any host's.
func nowhere(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err != nil || port == "0" || strings.Trim(host, ":0.") == ""
}

func noAddress(address string) error {
	return usagef("%q is no address at which other members reach this node; name it with --raft-advertise", address)
}

// refuseCalling refuses what only a command that calls masters understands.
func refuseCalling(cmd *cobra.Command) error {
	for _, flag := range []string{"addr", "client-name", "call-timeout"} {
		if cmd.Flags().Changed(flag) {
			return usagef("%s works on files here and calls no master: --%s means nothing to it", cmd.CommandPath(), flag)
		}
	}
	return nil
}

// expected is the cluster that a command works on, as its caller says.
func expected(flag, value string, cfg config.Config) (int32, error) {
	if value == "" {
		return cfg.ClusterID, nil
	}
	id, err := strconv.ParseInt(value, 10, 32)
	if err != nil || id <= 0 {
		return 0, usagef("--%s %q is not the id of a cluster: a whole number from 1", flag, value)
	}
	if cfg.ClusterID != 0 && cfg.ClusterID != int32(id) {
		return 0, usagef("--%s is %d, the configuration's cluster.id is %d", flag, id, cfg.ClusterID)
	}
	return int32(id), nil
}

// confirmCluster has the caller type the id of the cluster that is worked on, unless a flag has named
// it. It is refused where nobody can be asked.
func (a *cli) confirmCluster(ctx context.Context, flag string, given bool, cluster int32, consequences ...string) error {
	for _, c := range consequences {
		fmt.Fprintln(a.Err, clean(c))
	}
	if given {
		return nil
	}
	id := strconv.Itoa(int(cluster))
	if !a.interactive() {
		return usagef("not done. There is no terminal to ask at; to confirm it, give the cluster's id: --%s %s", flag, id)
	}
	fmt.Fprintf(a.Err, "Type the cluster's id, %s, to go on: ", id)
	reply, err := a.reply(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(a.Err)
		return &statusError{status: exitFailed, message: "not done: no answer was given", next: "run it again and type the id, or give --" + flag + " " + id}
	case reply != id:
		return &statusError{status: exitFailed, message: "not done: the answer was not the cluster's id"}
	}
	return nil
}

// offlineResult is what restore and recover print.
type offlineResult struct {
	Already        bool   `json:"already_done"`
	DataDir        string `json:"data_dir"`
	KeptIn         string `json:"former_content,omitempty"`
	NodeID         string `json:"node_id"`
	InstanceID     string `json:"instance_id"`
	Address        string `json:"raft_address"`
	ClusterID      int32  `json:"cluster_id"`
	OldIncarnation int64  `json:"data_incarnation"`
	Incarnation    int64  `json:"incarnation"`
	RaftIndex      uint64 `json:"raft_index"`
	RaftTerm       uint64 `json:"raft_term"`
	OpenJobs       int    `json:"open_jobs"`
	Unsettled      int    `json:"unsettled_jobs"`
}

func resultOf(r *app.OfflineResult) offlineResult {
	return offlineResult{
		Already: r.Already, DataDir: r.DataDir, KeptIn: r.KeptIn, NodeID: r.NodeID, InstanceID: r.InstanceID, Address: r.Address,
		ClusterID: r.ClusterID, OldIncarnation: r.Incarnation, Incarnation: r.NewIncarnation, RaftIndex: r.Index, RaftTerm: r.Term,
		OpenJobs: r.OpenJobs, Unsettled: r.Unsettled,
	}
}

func (c *card) addResult(r offlineResult) {
	c.add("data directory", r.DataDir)
	c.add("former content", r.KeptIn)
	c.addf("node", "%s at %s, instance %s", r.NodeID, r.Address, r.InstanceID)
	c.addf("cluster", "%d, incarnation %d", r.ClusterID, r.Incarnation)
	c.addf("ends at", "entry %d of term %d", r.RaftIndex, r.RaftTerm)
	if !r.Already {
		c.addf("open jobs", "%d, of which %d will be UNKNOWN", r.OpenJobs, r.Unsettled)
	}
}
