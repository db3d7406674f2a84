package job

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Bounds on a backend's labels.
const (
	MaxLabels     = 32
	MaxLabelKey   = 64
	MaxLabelValue = 256
)

// addBackend registers an address under an id of its own. An id's address never
// changes and one address has one id, so that a slot is never counted twice.
func addBackend(v View, c AddBackend) (Change, *Refusal) {
	if refusal := checkAddress(c.Address); refusal != nil {
		return Change{}, refusal
	}
	if refusal := checkLabels(c.Labels); refusal != nil {
		return Change{}, refusal
	}
	if id, taken := v.BackendAt(c.Address); taken {
		return Change{}, refuse(CodeAlreadyExists, fmt.Sprintf("backend %d is registered at this host with one of these ports already", id),
			"use that one, or remove it first")
	}
	cluster := v.Cluster()
	b := &Backend{
		ID: cluster.NextBackend, Address: c.Address, State: BackendActive, Labels: slices.Clone(c.Labels),
		CreatedAt: c.At, UpdatedAt: c.At, UpdatedBy: c.Actor,
	}
	cluster.NextBackend++
	return Change{
		Cluster: &cluster,
		Backend: &BackendChange{ID: b.ID, New: b},
		Answer:  Answer{Backend: b},
	}, nil
}

// setBackendState drains or undrains: a draining backend keeps what it has and
// takes nothing new.
func setBackendState(v View, c SetBackendState) (Change, *Refusal) {
	old, refusal := findBackend(v, c.Backend)
	if refusal != nil {
		return Change{}, refusal
	}
	if !c.State.Valid() {
		return Change{}, invalid("a backend is active or draining and nothing else")
	}
	if old.State == c.State {
		return Change{Answer: Answer{Backend: old, Existing: true}}, nil
	}
	b := *old
	b.State, b.UpdatedAt, b.UpdatedBy = c.State, c.At, c.Actor
	return Change{
		Backend: &BackendChange{ID: b.ID, Old: old, New: &b},
		Answer:  Answer{Backend: &b},
	}, nil
}

func removeBackend(v View, c RemoveBackend) (Change, *Refusal) {
	old, refusal := findBackend(v, c.Backend)
	if refusal != nil {
		return Change{}, refusal
	}
	if held := v.SlotsHeld(old.ID); held > 0 {
		return Change{}, refuse(CodeInUse, fmt.Sprintf("backend %d was not removed: slots (%d) are held on it", old.ID, held),
			fmt.Sprintf("see who holds them with: lancemaster job list --open --backend %d; drain it and wait for termination proofs,"+
				" or release the slots of jobs whose workers you know to be gone", old.ID))
	}
	return Change{Backend: &BackendChange{ID: old.ID, Old: old}, Answer: Answer{Backend: old}}, nil
}

func findBackend(v View, id BackendID) (*Backend, *Refusal) {
	if b := v.Backend(id); b != nil {
		return b, nil
	}
	return nil, refuse(CodeNotFound, fmt.Sprintf("there is no backend %d", id), "see: lancemaster backend list")
}

func checkAddress(a Address) *Refusal {
	if ip, err := netip.ParseAddr(a.Host); err == nil {
		if ip.Zone() != "" {
			return invalid("the host is an address with a zone, which means something else on each master")
		}
	} else if !isHostName(a.Host) {
		return invalid("the host must be a DNS name of at most %d bytes, or an IP address without brackets", MaxHost)
	}
	for _, port := range []int32{a.BePort, a.HeartbeatPort} {
		if port < 1 || port > 65535 {
			return invalid("port %d is not between 1 and 65535", port)
		}
	}
	if a.BePort == a.HeartbeatPort {
		return invalid("the backend port and the heartbeat port are the same")
	}
	return nil
}

func checkLabels(labels []Label) *Refusal {
	if len(labels) > MaxLabels {
		return invalid("%d labels were given; at most %d are allowed", len(labels), MaxLabels)
	}
	for i, l := range labels {
		if l.Key == "" {
			return invalid("a label has no key")
		}
		if r := checkLine("a label's key", l.Key, MaxLabelKey); r != nil {
			return r
		}
		if r := checkLine("a label's value", l.Value, MaxLabelValue); r != nil {
			return r
		}
		if i > 0 && labels[i-1].Key >= l.Key {
			return invalid("labels are given sorted by key, each once")
		}
	}
	return nil
}

// hostKey makes equal hosts equal strings: names in any case, addresses in any
// spelling.
func hostKey(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.TrimSuffix(lower(host), ".")
}
