package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

const (
	// prepareTime bounds resolving the secrets of one job.
	prepareTime = 5 * time.Second
	// prepareReserve is how long a job holds a slot and a token while its secrets
	// are being resolved. A source that is slower holds up nobody; its job takes its
	// turn anew when the secrets are there.
	prepareReserve = 250 * time.Millisecond
	// preparedFor is how long resolved secrets wait for a slot before they are
	// dropped and resolved again.
	preparedFor = 5 * time.Second
	// maxPreparing bounds the preparations that run at once.
	maxPreparing = 64
)

// Bounds of one dispatch; a job over them can never be sent.
const (
	maxStorageOptions = 64
	maxOptionKey      = 256
	maxOptionValue    = 4096
	maxDispatchSize   = 512 << 10
)

// preparation is the resolving of one job's secrets, in memory only. Guarded by
// run.mu.
type preparation struct {
	catalogRevision int64
	done            bool
	doneAt          time.Time
	options         map[string]string
}

// ready reports whether the preparation holds fresh options for the catalog as it
// is now.
func (p *preparation) ready(catalog *job.Catalog, now time.Time) bool {
	return p != nil && p.done && p.catalogRevision == catalog.Revision && now.Sub(p.doneAt) < preparedFor
}

// take returns the prepared options, or the literal ones of a catalog that names
// no secret.
func (p *preparation) take(catalog *job.Catalog) map[string]string {
	if p != nil && p.done {
		return p.options
	}
	return literals(catalog)
}

func needsSecrets(catalog *job.Catalog) bool {
	for _, o := range catalog.Options {
		if o.Ref != "" {
			return true
		}
	}
	return false
}

func literals(catalog *job.Catalog) map[string]string {
	options := make(map[string]string, len(catalog.Options))
	for _, o := range catalog.Options {
		options[o.Key] = o.Value
	}
	return options
}

// beginPreparing resolves a job's secrets outside the round. r.mu is held.
func (r *run) beginPreparing(id job.ID, st *jobState, catalog *job.Catalog) {
	p := &preparation{catalogRevision: catalog.Revision}
	st.prep = p
	r.preparing++
	r.running.Go(func() {
		options, err := r.resolve(catalog)
		r.prepared(id, p, options, err)
		r.wakeUp()
	})
}

func (r *run) prepared(id job.ID, p *preparation, options map[string]string, err error) {
	r.mu.Lock()
	r.preparing--
	if err == nil {
		p.done, p.doneAt, p.options = true, time.Now(), options
		r.mu.Unlock()
		return
	}
	if st := r.jobs[id]; st != nil && st.prep == p {
		st.prep = nil
	}
	r.mu.Unlock()
	r.release(id, false)
	if r.rounds.Err() != nil {
		return
	}
	r.log.Warn("a job could not be prepared; it stays PENDING", "job", id, "error", err)
	r.d.metrics.dispatches.WithLabelValues(string(classUnprepared)).Inc()
	r.setBack(id, err.Error())
}

// resolve returns a catalog's storage options with every reference resolved.
func (r *run) resolve(catalog *job.Catalog) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(r.rounds, prepareTime)
	defer cancel()
	options := literals(catalog)
	for _, o := range catalog.Options {
		if o.Ref == "" {
			continue
		}
		value, err := r.d.cfg.Resolver.Resolve(ctx, o.Ref)
		if err != nil {
			return nil, fmt.Errorf("the storage option %s of catalog %q cannot be resolved: %w", o.Key, catalog.Name, err)
		}
		options[o.Key] = value
	}
	return options, nil
}

// build makes the whole invocation, with an identity and a secret of its own.
func (a *attempt) build() (*job.Invocation, error) {
	random := make([]byte, 32)
	if _, err := io.ReadFull(a.run.d.cfg.Random, random); err != nil {
		return nil, fmt.Errorf("no randomness for the invocation's secret: %w", err)
	}
	rec := a.rec
	return &job.Invocation{
		Job: rec.ID, DispatchRevision: rec.Revision + 1,
		InvocationID: invocationID(random[16:]), ProcessEpoch: a.epoch,
		DeadlineAt: job.Millis(nowMillis(a.run.d.wall(time.Now())) + rec.Spec.ExecuteDeadline),
		Mutation:   rec.Spec.Mutation, IndexName: rec.Target.IndexName, Column: rec.Spec.Column,
		IndexType: rec.Spec.IndexType, PropertiesJSON: rec.Spec.PropertiesJSON,
		IfNotExists: rec.Spec.IfNotExists, IfExists: rec.Spec.IfExists,
		DatasetURI: rec.Target.Locator, DatasetVersion: rec.Snapshot.DatasetVersion,
		SchemaContract: rec.Snapshot.SchemaContract, StorageOptions: a.options,
		Secret:           hex.EncodeToString(random[:16]),
		MaxNumPartitions: rec.Spec.MaxNumPartitions, MaxNumSubVectors: rec.Spec.MaxNumSubVectors,
	}, nil
}

// invocationID spells 128 random bits in groups, so that nobody, and no filter of
// messages, takes the id for a secret.
func invocationID(random []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", random[:4], random[4:6], random[6:8], random[8:10], random[10:])
}

func secretHash(invocation *job.Invocation) job.Hash {
	return sha256.Sum256([]byte(invocation.Secret))
}

// overBounds says which bound an invocation breaks; empty when it breaks none. It
// names options and never shows their values.
func overBounds(sender Sender, invocation *job.Invocation) (string, error) {
	if n := len(invocation.StorageOptions); n > maxStorageOptions {
		return fmt.Sprintf("the catalog has %d storage options; at most %d can be sent", n, maxStorageOptions), nil
	}
	longest := ""
	for key, value := range invocation.StorageOptions {
		if len(key) > maxOptionKey {
			return fmt.Sprintf("a storage option's key has %d bytes; at most %d can be sent", len(key), maxOptionKey), nil
		}
		if len(value) > maxOptionValue && (longest == "" || key < longest) {
			longest = key
		}
	}
	if longest != "" {
		return fmt.Sprintf("the value of storage option %s has %d bytes; at most %d can be sent",
			longest, len(invocation.StorageOptions[longest]), maxOptionValue), nil
	}
	size, err := sender.Size(invocation)
	if err != nil {
		return "", fmt.Errorf("the invocation cannot be encoded: %w", err)
	}
	if size > maxDispatchSize {
		return fmt.Sprintf("the invocation has %d bytes; at most %d can be sent", size, maxDispatchSize), nil
	}
	return "", nil
}
