//go:build faults

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/programs"
)

const (
	// exitLimit is how soon a process must be gone after its disk failed or hung, and leaderLimit how soon
	// another one must lead.
	exitLimit, leaderLimit = 10 * time.Second, 15 * time.Second
	// slack is what a machine with much else to do is given on top.
	slack = 4 * time.Second
)

// wants skips a test that this machine cannot run, where everybody sees it. CI as root must be able to.
func wants(t *testing.T, why error) {
	t.Helper()
	if why == nil {
		return
	}
	if os.Getenv("CI") != "" && os.Geteuid() == 0 {
		t.Fatalf("CI must be able to run this: %v", why)
	}
	fmt.Printf("\nfaults: SKIPPED %s: %v\n\n", t.Name(), why)
	t.Skip(why)
}

// asRoot says what keeps this process from running privileged commands.
func asRoot(commands ...string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("it wants root")
	}
	for _, command := range commands {
		if _, err := exec.LookPath(command); err != nil {
			return fmt.Errorf("it wants %s: %w", command, err)
		}
	}
	return nil
}

// privileged runs a command of root's, in a bounded time.
func privileged(input, name string, args ...string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	return cmd.CombinedOutput()
}

// A disk write that fails, and one that hangs, end the process, whether it leads or follows. Another one
// leads soon, and the state is sound afterwards.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	wants(t, asRoot("strace"))
	t.Run("write error", func(t *testing.T) {
		diskFaults(t, func(c *cluster, l *load, victim *node) {
			c.breaks(victim, l, func() { inject(victim, "error=EIO") }, func() { victim.proc.AwaitFailure(exitLimit + slack) })
		})
	})
	t.Run("hang", func(t *testing.T) {
		diskFaults(t, func(c *cluster, l *load, victim *node) {
			var s *programs.Process
			c.breaks(victim, l, func() { s = inject(victim, "delay_enter=60000000") }, func() {
				// strace lets nothing go before a delay is over, not even what has ended. So the master's last
				// words are waited for, and strace is ended then.
				programs.Eventually(t, exitLimit+slack, func() string {
					if !strings.Contains(victim.proc.Out(), "the node cannot go on: the disk failed") {
						return victim.id + " goes on with a disk that hangs"
					}
					return ""
				})
				s.Kill()
				victim.proc.AwaitFailure(slack)
			})
		})
	})
}

// diskFaults has the disk of a leader, and then of a follower, fail under load.
func diskFaults(t *testing.T, fail func(*cluster, *load, *node)) {
	c := formed(t)
	l := newLoad(c)
	l.start()
	for _, leads := range []bool{true, false} {
		l.until(5)
		victim := c.follower()
		if leads {
			victim = c.leader()
		}
		fail(c, l, victim)
		victim.launch()
		victim.untilStatus("taking part", follows)
	}
	c.judge(l)
}

// inject has strace do something to each of a master's syncs to disk.
func inject(n *node, what string) *programs.Process {
	n.t.Helper()
	s := programs.Launch(n.t, "strace", nil, "strace", "-f", "-q", "-o", os.DevNull, "-e", "trace=fdatasync,fsync",
		"-e", "inject=fdatasync,fsync:"+what, "-p", fmt.Sprint(n.proc.Pid()))
	n.t.Cleanup(func() {
		if s.Running() {
			s.TerminateAnyhow()
		}
	})
	untilTraced(n.t, n.proc)
	return s
}

// untilTraced waits until all threads of a process are traced.
func untilTraced(t *testing.T, p *programs.Process) {
	t.Helper()
	programs.Eventually(t, patience, func() string {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.Pid()))
		if err != nil || len(tasks) == 0 {
			return "" // it has ended: the fault was quick
		}
		for _, task := range tasks {
			if status, err := os.ReadFile(task); err == nil && strings.Contains(string(status), "TracerPid:\t0\n") {
				return task + " is not traced"
			}
		}
		return ""
	})
}

// breaks breaks a master's disk under load, and holds its end, and the next leader, to their limits.
func (c *cluster) breaks(victim *node, l *load, fault, end func()) {
	t := c.t
	t.Helper()
	led := victim == c.leader()
	fault()
	began := time.Now()
	var next *node
	var missing string
	var leading time.Duration
	var watching sync.WaitGroup
	watching.Go(func() {
		next, missing = leaderAmong(c.others(victim))
		leading = time.Since(began)
	})
	end()
	ended := time.Since(began)
	watching.Wait()
	if missing != "" {
		t.Fatal(missing)
	}
	t.Logf("%s, leader: %v, ended after %s (%v); %s led after %s", victim.id, led, ended, victim.proc.Err(), next.id, leading)
	if leading > leaderLimit+slack {
		t.Errorf("%s led %s after the disk of %s failed, want another one within %s", next.id, leading, victim.id, leaderLimit)
	}
	l.until(3)
}

// A full disk ends the process too. When there is room again it starts and catches up.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	wants(t, asRoot("mount", "umount"))
	c := newCluster(t, 3)
	c.listMembers()
	small := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := privileged("", "mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "lancemaster-faults", small); err != nil {
		wants(t, fmt.Errorf("it cannot mount a tmpfs: %w: %s", err, out))
	}
	victim := c.nodes[0]
	victim.dir = filepath.Join(small, "data")
	t.Cleanup(func() {
		if victim.up() {
			victim.proc.Kill()
		}
		if out, err := privileged("", "umount", small); err != nil {
			t.Errorf("unmounting: %v: %s", err, out)
		}
	})
	c.startAll()
	c.prepare()
	l := newLoad(c)
	l.start()
	for _, leads := range []bool{true, false} {
		l.until(5)
		to := victim
		if !leads {
			to = c.nodes[1]
		}
		c.transfer(to)
		filler := filepath.Join(small, "filler")
		c.breaks(victim, l, func() { fill(t, filler) }, func() { victim.proc.AwaitFailure(exitLimit + slack) })
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		victim.launch()
		victim.untilStatus("taking part", follows)
	}
	c.judge(l)
}

// fill writes a file until there is no room for more.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			if !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
				t.Fatal(err)
			}
			return
		}
	}
}

// transfer has a node lead.
func (c *cluster) transfer(to *node) {
	c.t.Helper()
	programs.Eventually(c.t, patience, func() string {
		if c.leader() == to {
			return ""
		}
		out := cli(c.t, to.binary, c.admins(), "cluster", "transfer-leader", to.id)
		return to.id + " does not lead: " + out.String()
	})
}
