package command

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/internal/job"
)

// kind is one row of a table: how values of one Go type are written and read.
type kind struct {
	number uint16 // append-only
	name   string // of the command or record, for people
	level  int32  // the lowest level that has this kind; a value may need a higher one
	encode func(any) (thrift.TStruct, error)
	decode func([]byte) (any, error)
}

// errForeignType says that a value is not what its name promised: a command of
// another package, or a pointer to a command.
var errForeignType = errors.New("it is not a value of this kind's type")

// row makes a kind of the functions for one domain type D and one Thrift type T.
func row[D, T any, P interface {
	*T
	thrift.TStruct
}](number uint16, name string, put func(D) P, get func(*reader, P) D, check func(*checker, D)) kind {
	k := kind{number: number, name: name, level: 1}
	k.encode = func(v any) (thrift.TStruct, error) {
		d, ok := v.(D)
		if !ok {
			return nil, errForeignType
		}
		var c checker
		if check(&c, d); c.err != nil {
			return nil, c.err
		}
		return put(d), nil
	}
	k.decode = func(data []byte) (any, error) {
		var r reader
		p := P(new(T))
		if err := decodeStruct(data, p); err != nil {
			return nil, err
		}
		d := get(&r, p)
		if r.err != nil {
			return nil, r.err
		}
		var c checker
		if check(&c, d); c.err != nil {
			return nil, c.err
		}
		return d, nil
	}
	return k
}

// commands is the table of commands. Numbers are append-only.
var commands = amend([]kind{
	row(1, job.Form{}.Name(), putForm, getForm, (*checker).form),
	row(2, job.Admit{}.Name(), putAdmit, getAdmit, (*checker).admit),
	row(3, job.MarkRunning{}.Name(), putMarkRunning, getMarkRunning, (*checker).markRunning),
	row(4, job.Complete{}.Name(), putComplete, getComplete, (*checker).complete),
	row(5, job.RecordTermination{}.Name(), putRecordTermination, getRecordTermination, (*checker).recordTermination),
	row(6, job.RefreshStart{}.Name(), putRefreshStart, getRefreshStart, (*checker).refreshStart),
	row(7, job.RefreshFinish{}.Name(), putRefreshFinish, getRefreshFinish, (*checker).refreshFinish),
	row(8, job.Cancel{}.Name(), putCancel, getCancel, (*checker).cancel),
	row(9, job.RejectBeforeDispatch{}.Name(), putReject, getReject, (*checker).reject),
	row(10, job.ForceRelease{}.Name(), putForceRelease, getForceRelease, (*checker).forceRelease),
	row(11, job.ReleaseSlot{}.Name(), putReleaseSlot, getReleaseSlot, (*checker).releaseSlot),
	row(12, job.RecordLateResult{}.Name(), putLateResultCommand, getLateResultCommand, (*checker).recordLateResult),
	row(13, job.Quarantine{}.Name(), putQuarantine, getQuarantine, (*checker).quarantine),
	row(14, job.TermStart{}.Name(), putTermStart, getTermStart, (*checker).termStart),
	row(15, job.RemoveResolved{}.Name(), putRemoveResolved, getRemoveResolved, (*checker).removeResolved),
	row(16, job.PutCatalog{}.Name(), putPutCatalog, getPutCatalog, (*checker).putCatalog),
	row(17, job.RemoveCatalog{}.Name(), putRemoveCatalog, getRemoveCatalog, (*checker).removeCatalog),
	row(18, job.AddBackend{}.Name(), putAddBackend, getAddBackend, (*checker).addBackend),
	row(19, job.SetBackendState{}.Name(), putSetBackendState, getSetBackendState, (*checker).setBackendState),
	row(20, job.RemoveBackend{}.Name(), putRemoveBackend, getRemoveBackend, (*checker).removeBackend),
	row(21, job.ChangeSettings{}.Name(), putChangeSettings, getChangeSettings, (*checker).changeSettings),
	row(22, job.RaiseLevel{}.Name(), putRaiseLevel, getRaiseLevel, (*checker).raiseLevel),
	row(23, job.Reopen{}.Name(), putReopen, getReopen, (*checker).reopen),
	row(24, job.PutMember{}.Name(), putPutMember, getPutMember, (*checker).putMember),
	row(25, job.RemoveMember{}.Name(), putRemoveMember, getRemoveMember, (*checker).removeMember),
	row(26, job.PutToken{}.Name(), putPutToken, getPutToken, (*checker).putToken),
	row(27, job.RemoveToken{}.Name(), putRemoveToken, getRemoveToken, (*checker).removeToken),
})

// The rows of the records. Numbers are append-only.
var (
	jobKind     = row(1, "JOB", putRecord, getRecord, (*checker).record)
	eventKind   = row(2, "EVENT", putEvent, getEvent, (*checker).event)
	catalogKind = row(3, "CATALOG", putCatalogRecord, getCatalogRecord, (*checker).catalog)
	backendKind = row(4, "BACKEND", putBackendRecord, getBackendRecord, (*checker).backend)
	clusterKind = row(5, "CLUSTER", putCluster, getCluster, (*checker).cluster)
	settingKind = row(6, "SETTING_CHANGE", putSettingChange, getSettingChange, (*checker).settingChange)
	memberKind  = row(7, "MEMBER", putMember, getMember, (*checker).member)
	tokenKind   = row(8, "TOKEN", putToken, getToken, (*checker).token)
)

var (
	commandsByName   = map[string]*kind{}
	commandsByNumber = map[uint16]*kind{}
)

func init() {
	for i := range commands {
		commandsByName[commands[i].name] = &commands[i]
		commandsByNumber[commands[i].number] = &commands[i]
	}
}

// Encode returns a command's bytes, at the lowest level that can carry it. The
// error is an *InvalidError: nothing that Encode refuses may be proposed.
func Encode(c job.Command) ([]byte, error) {
	if c == nil {
		return nil, &InvalidError{What: "a command", Err: errors.New("it is nil")}
	}
	k, ok := commandsByName[c.Name()]
	if !ok {
		return nil, &InvalidError{What: "command " + c.Name(), Err: errors.New("its name is not in the table of kinds")}
	}
	data, err := k.bytes(commandFormat, "command ", c)
	if level := raises(c); err == nil && level > MaxLevel {
		return nil, &InvalidError{What: "command " + k.name, Err: fmt.Errorf("this build supports level %d, not %d", MaxLevel, level)}
	}
	return data, err
}

// EncodeAt is Encode for a journal in which a level is in force. It refuses what
// needs a higher one: masters of older builds could not read it, and would stop.
func EncodeAt(level int32, c job.Command) ([]byte, error) {
	data, err := Encode(c)
	if err != nil {
		return nil, err
	}
	if need := job.LevelOf(c); need > max(level, 1) {
		return nil, &InvalidError{What: "command " + c.Name(), Err: fmt.Errorf("it comes with feature level %d,"+
			" and the cluster's is %d; raise the level once every master runs a build that supports it", need, level)}
	}
	return data, nil
}

// Decode reads what Encode wrote. The error is an *UnsupportedError or a
// *CorruptError.
func Decode(data []byte) (job.Command, error) {
	h, err := readHeader(commandFormat, data)
	if err != nil {
		return nil, &CorruptError{What: "a command", Err: err}
	}
	k, known := commandsByNumber[h.number]
	if !known || h.level > MaxLevel {
		what := fmt.Sprintf("command kind %d", h.number)
		if known {
			what = "command " + k.name
		}
		return nil, unsupportedHeader(h, what, known)
	}
	v, err := k.value(commandFormat, "command ", h, data)
	if err != nil {
		return nil, err
	}
	if level := raises(v); level > MaxLevel {
		return nil, &UnsupportedError{Level: level, What: "command " + k.name, Why: "it puts that level in force"}
	}
	return v.(job.Command), nil //nolint:errcheck,forcetypeassert // every row of commands is of a job.Command
}

// raises returns the level that a command puts in force, or 0. From there on the
// journal may hold what this build cannot read, so a node stops before it.
func raises(c any) int32 {
	switch c := c.(type) {
	case job.Form:
		return c.Level
	case job.RaiseLevel:
		return c.Level
	}
	return 0
}

func unsupportedHeader(h header, what string, known bool) error {
	why := "the level is higher"
	if !known {
		why = "the kind is not known here"
	}
	return &UnsupportedError{Level: h.level, What: what, Why: why}
}

func (k *kind) bytes(format byte, family string, v any) ([]byte, error) {
	s, err := k.encode(v)
	if err == nil {
		var data []byte
		if data, err = encodeStruct(format, max(k.level, job.LevelOf(v)), k.number, s); err == nil {
			return data, nil
		}
	}
	return nil, &InvalidError{What: family + k.name, Err: err}
}

// value decodes and holds the bytes to their canonical form.
func (k *kind) value(format byte, family string, h header, data []byte) (any, error) {
	v, err := k.decode(data)
	if unknown := (*unknownFieldError)(nil); errors.As(err, &unknown) {
		return nil, &UnsupportedError{Level: h.level, What: family + k.name, Why: unknown.Error()}
	}
	if err != nil {
		return nil, &CorruptError{What: family + k.name, Err: err}
	}
	again, err := k.bytes(format, family, v)
	if err != nil {
		return nil, &CorruptError{What: family + k.name, Err: err}
	}
	if !bytes.Equal(again, data) {
		return nil, &CorruptError{What: family + k.name, Err: fmt.Errorf("its %d bytes are not the %d that"+
			" encode its content", len(data), len(again))}
	}
	return v, nil
}

// encodeRecord, encodePointer and decodeRecord are what the typed functions below
// share.
func (k *kind) encodeRecord(v any) ([]byte, error) { return k.bytes(recordFormat, "record ", v) }

func encodePointer[D any](k *kind, v *D) ([]byte, error) {
	if v == nil {
		return nil, &InvalidError{What: "record " + k.name, Err: errors.New("it is nil")}
	}
	return k.encodeRecord(v)
}

func decodeRecord[D any](k *kind, data []byte) (D, error) {
	var none D
	h, err := readHeader(recordFormat, data)
	if err != nil {
		return none, &CorruptError{What: "record " + k.name, Err: err}
	}
	if h.level > MaxLevel {
		return none, unsupportedHeader(h, "record "+k.name, true)
	}
	if h.number != k.number {
		return none, &CorruptError{What: "record " + k.name, Err: fmt.Errorf("it is of kind %d, not %d", h.number, k.number)}
	}
	v, err := k.value(recordFormat, "record ", h, data)
	if err != nil {
		return none, err
	}
	return v.(D), nil //nolint:errcheck,forcetypeassert // a row decodes only its own type
}

// EncodeRecord returns the bytes of a job's record.
func EncodeRecord(r *job.Record) ([]byte, error) { return encodePointer(&jobKind, r) }

// DecodeRecord reads what EncodeRecord wrote.
func DecodeRecord(data []byte) (*job.Record, error) { return decodeRecord[*job.Record](&jobKind, data) }

// EncodeEvent returns the bytes of an event.
func EncodeEvent(e job.Event) ([]byte, error) { return eventKind.encodeRecord(e) }

// DecodeEvent reads what EncodeEvent wrote.
func DecodeEvent(data []byte) (job.Event, error) { return decodeRecord[job.Event](&eventKind, data) }

// EncodeCatalog returns the bytes of a catalog.
func EncodeCatalog(c *job.Catalog) ([]byte, error) { return encodePointer(&catalogKind, c) }

// DecodeCatalog reads what EncodeCatalog wrote.
func DecodeCatalog(data []byte) (*job.Catalog, error) {
	return decodeRecord[*job.Catalog](&catalogKind, data)
}

// EncodeBackend returns the bytes of a backend.
func EncodeBackend(b *job.Backend) ([]byte, error) { return encodePointer(&backendKind, b) }

// DecodeBackend reads what EncodeBackend wrote.
func DecodeBackend(data []byte) (*job.Backend, error) {
	return decodeRecord[*job.Backend](&backendKind, data)
}

// EncodeCluster returns the bytes of the cluster's record.
func EncodeCluster(c job.Cluster) ([]byte, error) { return clusterKind.encodeRecord(c) }

// DecodeCluster reads what EncodeCluster wrote. A cluster whose level is above
// MaxLevel is unsupported: its journal may hold what this build cannot read.
func DecodeCluster(data []byte) (job.Cluster, error) {
	c, err := decodeRecord[job.Cluster](&clusterKind, data)
	if err == nil && c.Level > MaxLevel {
		return job.Cluster{}, &UnsupportedError{Level: c.Level, What: "the cluster", Why: "that level is in force"}
	}
	return c, err
}

// EncodeSettingChange returns the bytes of a changed setting.
func EncodeSettingChange(c job.SettingChange) ([]byte, error) { return settingKind.encodeRecord(c) }

// DecodeSettingChange reads what EncodeSettingChange wrote.
func DecodeSettingChange(data []byte) (job.SettingChange, error) {
	return decodeRecord[job.SettingChange](&settingKind, data)
}

// EncodeMember returns the bytes of a member.
func EncodeMember(m *job.Member) ([]byte, error) { return encodePointer(&memberKind, m) }

// DecodeMember reads what EncodeMember wrote.
func DecodeMember(data []byte) (*job.Member, error) {
	return decodeRecord[*job.Member](&memberKind, data)
}

// EncodeToken returns the bytes of an access token.
func EncodeToken(t *job.Token) ([]byte, error) { return encodePointer(&tokenKind, t) }

// DecodeToken reads what EncodeToken wrote.
func DecodeToken(data []byte) (*job.Token, error) { return decodeRecord[*job.Token](&tokenKind, data) }
