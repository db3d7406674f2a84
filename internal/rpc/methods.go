package rpc

import "github.com/lancemaster/lancemaster/internal/job"

// access says what a method does with the journal.
type access uint8

const (
	local  access = iota // answers from this node alone
	reads                // wants a state no older than the request
	leads                // wants the leader, or with stale this node, and no particular state
	writes               // proposes
)

// method describes one method of the service.
type method struct {
	name   string
	role   job.Role // the least that may call it
	access access
	// polls methods hold their answer back on purpose: they end when their caller goes away and when
	// this server stops.
	polls bool
	// lost is what to do when nobody knows whether a command was applied.
	lost string
}

// What to do next after a lost answer.
const (
	lookAtJob      = "look at the job with `job show` and its history before asking again"
	repeatRelease  = "run it again: a job that is released already is answered with its record"
	lookAtSettings = "look at `settings history` before asking again"
	lookAtCatalogs = "look at `catalog list` before asking again"
	lookAtBackends = "look at `backend list` before asking again"
	lookAtCluster  = "look at `cluster status` before asking again"
	lookAtTokens   = "look at `token list` before asking again; revoke a token whose text was lost"
	repeatSubmit   = "run it again with the same --request-id: it is admitted once; without one, look at `job list` first"
)

// methods is the service, with what each method needs.
var methods = table(
	method{name: "status", role: job.RoleRead, access: local},
	method{name: "submit", role: job.RoleSubmit, access: writes, lost: repeatSubmit},
	method{name: "getJob", role: job.RoleRead, access: reads},
	method{name: "listJobs", role: job.RoleRead, access: reads},
	method{name: "jobHistory", role: job.RoleRead, access: reads},
	method{name: "waitJob", role: job.RoleRead, access: reads, polls: true},
	method{name: "explainJob", role: job.RoleRead, access: reads},
	method{name: "watchJobs", role: job.RoleRead, access: reads, polls: true},
	method{name: "cancelJob", role: job.RoleOperate, access: writes, lost: lookAtJob},
	method{name: "releaseSlot", role: job.RoleOperate, access: writes, lost: lookAtJob},
	method{name: "forceReleaseJob", role: job.RoleOperate, access: writes, lost: repeatRelease},
	method{name: "inspectDataset", role: job.RoleRead, access: reads},
	method{name: "putCatalog", role: job.RoleOperate, access: writes, lost: lookAtCatalogs},
	method{name: "getCatalog", role: job.RoleRead, access: reads},
	method{name: "listCatalogs", role: job.RoleRead, access: reads},
	method{name: "removeCatalog", role: job.RoleOperate, access: writes, lost: lookAtCatalogs},
	method{name: "addBackend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "listBackends", role: job.RoleRead, access: reads},
	method{name: "removeBackend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "drainBackend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "undrainBackend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "listSettings", role: job.RoleRead, access: reads},
	method{name: "setSettings", role: job.RoleOperate, access: writes, lost: lookAtSettings},
	method{name: "resetSettings", role: job.RoleOperate, access: writes, lost: lookAtSettings},
	method{name: "settingsHistory", role: job.RoleRead, access: reads},
	method{name: "clusterStatus", role: job.RoleRead, access: reads},
	method{name: "addMember", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "removeMember", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "replaceMember", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "transferLeader", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "reopenCluster", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "snapshotBegin", role: job.RoleAdmin, access: reads},
	method{name: "snapshotRead", role: job.RoleAdmin, access: leads},
	method{name: "snapshotEnd", role: job.RoleAdmin, access: leads},
	method{name: "createToken", role: job.RoleAdmin, access: writes, lost: lookAtTokens},
	method{name: "listTokens", role: job.RoleAdmin, access: reads},
	method{name: "revokeToken", role: job.RoleAdmin, access: writes, lost: lookAtTokens},
)

func table(list ...method) map[string]method {
	byName := make(map[string]method, len(list))
	for _, m := range list {
		byName[m.name] = m
	}
	return byName
}
