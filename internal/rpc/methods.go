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
	doing  string   // what its caller does, in the words of the commands: who is refused knows no method
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
	method{name: "status", doing: "asking a master for its status", role: job.RoleRead, access: local},
	method{name: "submit", doing: "submitting a job", role: job.RoleSubmit, access: writes, lost: repeatSubmit},
	method{name: "getJob", doing: "showing a job", role: job.RoleRead, access: reads},
	method{name: "listJobs", doing: "listing jobs", role: job.RoleRead, access: reads},
	method{name: "jobHistory", doing: "showing a job's history", role: job.RoleRead, access: reads},
	method{name: "waitJob", doing: "waiting for a job", role: job.RoleRead, access: reads, polls: true},
	method{name: "explainJob", doing: "explaining a job", role: job.RoleRead, access: reads},
	method{name: "watchJobs", doing: "watching jobs", role: job.RoleRead, access: reads, polls: true},
	method{name: "cancelJob", doing: "cancelling a job", role: job.RoleOperate, access: writes, lost: lookAtJob},
	method{name: "releaseSlot", doing: "releasing a job's slot", role: job.RoleOperate, access: writes, lost: lookAtJob},
	method{name: "forceReleaseJob", doing: "force-releasing a job", role: job.RoleOperate, access: writes, lost: repeatRelease},
	method{name: "inspectDataset", doing: "inspecting a dataset", role: job.RoleRead, access: reads},
	method{name: "putCatalog", doing: "creating or changing a catalog", role: job.RoleOperate, access: writes, lost: lookAtCatalogs},
	method{name: "getCatalog", doing: "showing a catalog", role: job.RoleRead, access: reads},
	method{name: "listCatalogs", doing: "listing catalogs", role: job.RoleRead, access: reads},
	method{name: "removeCatalog", doing: "removing a catalog", role: job.RoleOperate, access: writes, lost: lookAtCatalogs},
	method{name: "addBackend", doing: "adding a backend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "listBackends", doing: "listing backends", role: job.RoleRead, access: reads},
	method{name: "removeBackend", doing: "removing a backend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "drainBackend", doing: "draining a backend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "undrainBackend", doing: "undraining a backend", role: job.RoleOperate, access: writes, lost: lookAtBackends},
	method{name: "listSettings", doing: "listing settings", role: job.RoleRead, access: reads},
	method{name: "setSettings", doing: "changing settings", role: job.RoleOperate, access: writes, lost: lookAtSettings},
	method{name: "resetSettings", doing: "resetting settings", role: job.RoleOperate, access: writes, lost: lookAtSettings},
	method{name: "settingsHistory", doing: "showing the history of settings", role: job.RoleRead, access: reads},
	method{name: "clusterStatus", doing: "showing the cluster", role: job.RoleRead, access: reads},
	method{name: "addMember", doing: "adding a member", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "removeMember", doing: "removing a member", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "replaceMember", doing: "replacing a member", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "transferLeader", doing: "moving the lead to another master", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "reopenCluster", doing: "reopening the cluster", role: job.RoleAdmin, access: writes, lost: lookAtCluster},
	method{name: "snapshotBegin", doing: "saving a snapshot", role: job.RoleAdmin, access: reads},
	method{name: "snapshotRead", doing: "saving a snapshot", role: job.RoleAdmin, access: leads},
	method{name: "snapshotEnd", doing: "saving a snapshot", role: job.RoleAdmin, access: leads},
	method{name: "createToken", doing: "creating a token", role: job.RoleAdmin, access: writes, lost: lookAtTokens},
	method{name: "listTokens", doing: "listing tokens", role: job.RoleAdmin, access: reads},
	method{name: "revokeToken", doing: "revoking a token", role: job.RoleAdmin, access: writes, lost: lookAtTokens},
)

func table(list ...method) map[string]method {
	byName := make(map[string]method, len(list))
	for _, m := range list {
		byName[m.name] = m
	}
	return byName
}
