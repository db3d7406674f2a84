package cluster

import "time"

// maxClockDifference is how far a master's clock may be from another's for the two to agree.
const maxClockDifference = time.Minute

// maxSampleAge bounds how old a clock reading of another master may be.
const maxSampleAge = 30 * time.Second

// clockDifference is how far this node's wall clock is ahead of another master's. The reading is
// carried on by the monotonic clock, so that a step of our own clock since then shows.
func (c *Cluster) clockDifference(s sighting) (difference time.Duration, ok bool) {
	if s.at.IsZero() || time.Since(s.at) > maxSampleAge {
		return 0, false
	}
	theirs := time.UnixMilli(s.status.WallMillis).Add(time.Since(s.middle))
	return c.cfg.Now().Round(0).Sub(theirs), true
}

// AgreesWithMajority says whether this node's wall clock agrees within a minute with a majority of
// the voting masters, itself among them. A master alone agrees with itself. One that was not heard
// lately, or that answered with another disk than the registered one, does not count as agreeing.
func (c *Cluster) AgreesWithMajority() bool {
	voters, agree := 0, 0
	for _, server := range c.cfg.Raft.Servers() {
		if !server.Voter {
			continue // it never led, so that nothing in the journal carries its time
		}
		voters++
		if server.ID == c.cfg.NodeID {
			agree++
			continue
		}
		s := c.peers.get(server.ID)
		difference, ok := c.clockDifference(s)
		if ok && c.isRegistered(s) && difference.Abs()+s.uncertain <= maxClockDifference {
			agree++
		}
	}
	return agree*2 > voters
}
