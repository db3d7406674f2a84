package app

import (
	"fmt"
	"strings"
)

// What follows is for a run on a directory that an earlier restore or recovery has made, and whose
// Quarantine is still owed: what is there may be what is asked for, or not.

// found reads what is there.
func (o *Offline) found(id identity) (p OfflinePlan, err error) {
	p = OfflinePlan{DataDir: o.DataDir, NodeID: o.NodeID, NewIncarnation: id.Pending.Incarnation}
	if err := readState(o.DataDir, p.describeState); err != nil {
		return p, err
	}
	// Where the log ends, as disks are compared by it: the state counts only the entries that change it.
	disk := o.raftConfig(o.DataDir)
	if p.Index, p.Term, err = disk.End(); err != nil {
		return p, err
	}
	members, err := disk.Members()
	for _, m := range members {
		if m.ID == o.NodeID {
			p.Address = m.Address
		}
	}
	return p, err
}

// differs says what is asked for that is not there; nothing when all of it is.
func (o *Offline) differs(there OfflinePlan) string {
	var other []string
	if o.Incarnation != 0 && o.Incarnation != there.NewIncarnation {
		other = append(other, fmt.Sprintf("in incarnation %d", o.Incarnation))
	}
	if o.Address != there.Address {
		other = append(other, "at "+o.Address)
	}
	return strings.Join(other, " ")
}
