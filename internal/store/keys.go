package store

import (
	"encoding/binary"

	"github.com/lancemaster/lancemaster/internal/job"
)

// The buckets. The numbers exist in memory only; the names are stored.
const (
	bucketMeta = iota
	bucketJobs
	bucketHistory
	bucketDropped
	bucketWatch
	bucketRequests
	bucketClosed
	bucketPostings
	bucketCatalogs
	bucketBackends
	bucketSettings
	bucketSettingsHistory
	bucketStates
	bucketMembers
	bucketTokens
	bucketCount
)

var bucketNames = [bucketCount][]byte{
	bucketMeta: []byte("meta"), bucketJobs: []byte("jobs"), bucketHistory: []byte("history"),
	bucketDropped: []byte("dropped"), bucketWatch: []byte("watch"), bucketRequests: []byte("requests"),
	bucketClosed: []byte("closed"), bucketPostings: []byte("postings"), bucketCatalogs: []byte("catalogs"),
	bucketBackends: []byte("backends"), bucketSettings: []byte("settings"),
	bucketSettingsHistory: []byte("settings_history"), bucketStates: []byte("states"),
	bucketMembers: []byte("members"), bucketTokens: []byte("tokens"),
}

// Keys of the meta bucket.
var (
	metaFormat       = []byte("format")
	metaApplied      = []byte("applied")
	metaCluster      = []byte("cluster")
	metaSettingCount = []byte("settings_history_count")
)

// The kinds of postings. Append-only: they are stored.
const (
	postAll        byte = 1
	postState      byte = 2
	postRefresh    byte = 3
	postOpen       byte = 4
	postUnresolved byte = 5
	postCatalog    byte = 6
	postTable      byte = 7
	postDataset    byte = 8
	postIndexKey   byte = 9
	postBackend    byte = 10
	// postLive marks what memory holds: jobs that are open or owe a late refresh.
	postLive byte = 11
)

func appendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendInt64 keeps the order of signed numbers.
func appendInt64(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(v)^(1<<63))
}

func readInt64(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b) ^ (1 << 63))
}

// appendText puts a text behind its length. Texts are bounded far below 64 KiB by
// package command.
func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s))) //nolint:gosec // see above
	return append(b, s...)
}

// jobKey is written like a position's id. Ids are positive, so the plain
// big-endian number sorts as they do.
func jobKey(id job.ID) []byte { return appendID(nil, id) }

func appendID(b []byte, id job.ID) []byte {
	return appendUint64(b, uint64(id))
}

func readID(b []byte) job.ID {
	return job.ID(binary.BigEndian.Uint64(b))
}

func historyKey(id job.ID, revision job.Revision) []byte {
	return appendUint64(jobKey(id), uint64(revision))
}

func watchKey(e job.Event) []byte {
	key := appendID(appendUint64(nil, e.Index), e.Job)
	return appendUint64(key, uint64(e.Revision))
}

func requestKey(creator, requestID string) []byte {
	return append(appendText(nil, creator), requestID...)
}

func closedKey(r *job.Record) []byte { return appendID(appendInt64(nil, int64(r.ClosedAt)), r.ID) }

func backendKey(id job.BackendID) []byte {
	return appendUint64(nil, uint64(id))
}

// posting is one value of one job, the key's part before its position.
type posting struct {
	kind  byte
	value string
}

// prefix returns the bytes that all keys of this posting begin with.
func (p posting) prefix() []byte {
	return appendText(append(make([]byte, 0, 3+len(p.value)+positionSize), p.kind), p.value)
}

func (p posting) key(at position) []byte { return append(p.prefix(), at[:]...) }

func statePosting(s job.State) posting { return posting{postState, string([]byte{byte(s)})} }

func refreshPosting(s job.RefreshState) posting {
	return posting{postRefresh, string([]byte{byte(s)})}
}

func boolPosting(kind byte, v bool) posting {
	if v {
		return posting{kind, "\x01"}
	}
	return posting{kind, "\x00"}
}

func tablePosting(catalog, database, table string) posting {
	return posting{postTable, string(appendText(appendText(appendText(nil, catalog), database), table))}
}

func backendPosting(id job.BackendID) posting { return posting{postBackend, string(backendKey(id))} }

// postings lists what a record is found by.
func postings(r *job.Record) []posting {
	list := make([]posting, 0, 11)
	list = append(list,
		posting{postAll, ""}, statePosting(r.State), refreshPosting(r.Refresh.State),
		boolPosting(postOpen, r.Open()), boolPosting(postUnresolved, !r.Resolved()),
		posting{postCatalog, r.Target.Catalog},
		tablePosting(r.Target.Catalog, r.Target.Database, r.Target.Table),
		posting{postDataset, r.Target.Locator}, posting{postIndexKey, r.Target.IndexKey})
	if r.Dispatch.BackendID != 0 {
		list = append(list, backendPosting(r.Dispatch.BackendID))
	}
	if r.Live() {
		list = append(list, posting{postLive, ""})
	}
	return list
}

const positionSize = 16

// position is where a job stands in every list: created at, id.
type position [positionSize]byte

func positionOf(r *job.Record) position { return makePosition(r.CreatedAt, r.ID) }

func makePosition(created job.Millis, id job.ID) position {
	var p position
	b := appendInt64(p[:0], int64(created))
	appendID(b, id)
	return p
}

func (p position) created() job.Millis { return job.Millis(readInt64(p[:8])) }
func (p position) id() job.ID          { return readID(p[8:]) }

// before returns the position just below; ok is false where there is none.
func (p position) before() (position, bool) {
	for i := len(p) - 1; i >= 0; i-- {
		p[i]--
		if p[i] != 0xFF {
			return p, true
		}
	}
	return p, false
}
