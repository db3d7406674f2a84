package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
)

// served is a master that runs, as an operator has it.
type served struct {
	*session
	cancel context.CancelFunc
	ended  chan int
	log    *lines
}

var adminAddress = regexp.MustCompile(`"msg":"started".*"admin":"([^"]+)"`)

func serve(t *testing.T, dir string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{session: &session{dir: dir}, cancel: cancel, ended: make(chan int, 1), log: newLines()}
	t.Cleanup(func() { s.cancel() })
	args := append([]string{"serve", "--data-dir", dir, "--node-id", "m1", "--log-format", "json", "--log-level", "info"}, anyPorts...)
	go func() {
		s.ended <- Run(ctx, args, nil, Streams{In: strings.NewReader(""), Out: newLines(), Err: s.log})
	}()
	s.log.await(t, `"msg":"started"`, s.ended)
	s.addr = adminAddress.FindStringSubmatch(s.log.String())[1]
	s.env = []string{"USER=ada"}
	return s
}

func (s *served) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	if status := <-s.ended; status != exitOK {
		t.Errorf("the master ended with %d:\n%s", status, s.log)
	}
	s.ended <- exitOK // for whoever asks again
}

// run runs a command that must go well, and reads what it prints as JSON.
func run(t *testing.T, s *session, into any, args ...string) {
	t.Helper()
	status, out, errs := runAt(t, s, append(args, "-o", "json")...)
	if status != exitOK {
		t.Fatalf("%q exits with %d: %s%s", args, status, out, errs)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%q prints %s: %v", args, out, err)
	}
}

func runAt(t *testing.T, s *session, args ...string) (status int, out, errs string) {
	t.Helper()
	stdout, stderr := newLines(), newLines()
	status = Run(t.Context(), args, append([]string{"LANCEMASTER_ADDR=" + s.addr}, s.env...), Streams{In: s.in(), Out: stdout, Err: stderr})
	return status, stdout.String(), stderr.String()
}

// refused runs a command that must fail with a status and a text.
func refused(t *testing.T, s *session, status int, says string, args ...string) {
	t.Helper()
	got, out, errs := runAt(t, s, args...)
	if got != status || !strings.Contains(errs, says) {
		t.Errorf("%q exits with %d, want %d and %q: %s%s", args, got, status, says, out, errs)
	}
}

func drop(t *testing.T, s *session, name string) int64 {
	t.Helper()
	var answer client.Submitted
	run(t, s, &answer, "index", "drop", name, "--catalog", "lake", "--table", "db.items", "--dataset", "s3://bucket/items.lance", "--dataset-version", "3")
	return answer.Job.ID
}

// wantQuarantine waits until the cluster is in quarantine in an incarnation, and holds it to what that
// means for a job.
func wantQuarantine(t *testing.T, s *session, incarnation, unsettled int64) {
	t.Helper()
	var j client.Job
	run(t, s, &j, "job", "show", fmt.Sprint(unsettled)) // answered once the leader serves
	if j.State != "UNKNOWN" || !j.FenceHeld {
		t.Errorf("job %d is %s, its name is held: %v", unsettled, j.State, j.FenceHeld)
	}
	var health struct {
		Masters []struct{ Status client.Status }
	}
	run(t, s, &health, "health")
	if st := health.Masters[0].Status; !st.Quarantined || st.Incarnation != incarnation {
		t.Errorf("the status is %+v", st)
	}
	refused(t, s, exitFailed, "QUARANTINED", "settings", "set", "admission.enabled=true")
	refused(t, s, exitFailed, "TOO_EARLY", "cluster", "reopen", "--note", "test", "--masters-stopped", "--backends-restarted")
}

// TestABackupIsRestored goes through what docs/backup.md says, on one node.
func TestABackupIsRestored(t *testing.T) {
	dir, backup := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "backup.lms")
	m := serve(t, dir)
	run(t, m.session, nil, "catalog", "create", "lake", "--store", "s3")
	run(t, m.session, nil, "settings", "set", "admission.enabled=true")
	first := drop(t, m.session, "one")
	var saved struct {
		ClusterID int32 `json:"cluster_id"`
		Jobs      int64
	}
	run(t, m.session, &saved, "snapshot", "save", backup)
	if saved.ClusterID == 0 || saved.Jobs != 1 {
		t.Errorf("saved is %+v", saved)
	}
	if second := drop(t, m.session, "two"); second != first+1 {
		t.Errorf("the second job is %d", second)
	}
	var content snapshotContent
	run(t, m.session, &content, "snapshot", "inspect", backup)
	if content.ClusterID != saved.ClusterID || content.OpenJobs != 1 || len(content.Catalogs) != 1 || content.CreatedBy != "m1" ||
		len(content.Settings) != 1 || content.Settings[0] != (snapshotSetting{"admission.enabled", "true", "false"}) {
		t.Errorf("the content is %+v", content)
	}
	if status, out, _ := runAt(t, m.session, "snapshot", "inspect", backup); status != exitOK || !strings.Contains(out, "backup.lms is whole\n") {
		t.Errorf("inspect exits with %d: %s", status, out)
	}

	id := fmt.Sprint(saved.ClusterID)
	// Into an empty directory, where nothing tells of later incarnations.
	const counted = "INCARNATION 2 IS COUNTED FROM THE FILE ALONE"
	m.typed = []string{"no\n"}
	empty := []string{"snapshot", "restore", backup, "--node-id", "m1", "--data-dir", filepath.Join(t.TempDir(), "empty"), "--raft-advertise", "10.0.0.1:9010"}
	refused(t, m.session, exitFailed, counted, empty...)
	m.typed = []string{"no\n"}
	if _, _, errs := runAt(t, m.session, append(empty, "--incarnation", "4")...); strings.Contains(errs, counted) || !strings.Contains(errs, "incarnation 4") {
		t.Errorf("with an incarnation given it says %s", errs)
	}
	m.typed = nil
	target := []string{"snapshot", "restore", backup, "--node-id", "m1", "--raft-advertise", "127.0.0.1:9010", "--data-dir"}
	at := func(dir string, more ...string) []string {
		return append(append(append([]string{}, target...), dir), more...)
	}
	refused(t, m.session, exitFailed, "another process (pid ", at(dir, "--expect-cluster-id", id, "--replace")...)
	m.stop(t)
	refused(t, m.session, exitFailed, `belongs to node "m1"; with --replace its content is kept`, at(dir, "--expect-cluster-id", id)...)
	refused(t, m.session, exitFailed, "expected is cluster", at(dir, "--expect-cluster-id", fmt.Sprint(saved.ClusterID^1), "--replace")...)
	refused(t, m.session, exitUsage, "There is no terminal to ask at", at(dir, "--replace")...)
	m.typed = []string{"no\n"}
	refused(t, m.session, exitFailed, "the answer was not the cluster's id", at(dir, "--replace")...)
	m.typed = []string{id + "\n"}
	var result offlineResult
	run(t, m.session, &result, at(dir, "--replace")...)
	if result.Incarnation != 2 || result.Already || result.OpenJobs != 1 || result.KeptIn == "" {
		t.Errorf("the result is %+v", result)
	}
	if _, err := os.Stat(filepath.Join(result.KeptIn, "node.json")); err != nil {
		t.Errorf("the former content is gone: %v", err)
	}

	m = serve(t, dir)
	wantQuarantine(t, m.session, 2, first)
	refused(t, m.session, exitFailed, "NOT_FOUND", "job", "show", fmt.Sprint(first+1))
	m.stop(t)
	// Its start is no second restore.
	m = serve(t, dir)
	wantQuarantine(t, m.session, 2, first)
	m.stop(t)

	// The same node, as the only one that is left of its cluster.
	recovery := []string{"cluster", "recover", "--data-dir", dir, "--node-id", "m1", "--raft-advertise", "127.0.0.1:9010"}
	refused(t, m.session, exitUsage, "THE OTHER MASTERS OF CLUSTER "+id+" ARE GIVEN UP", recovery...)
	run(t, m.session, &result, append(recovery, "--yes-i-know", id)...)
	if result.Incarnation != 3 || result.ClusterID != saved.ClusterID {
		t.Errorf("the result is %+v", result)
	}
	status, out, _ := runAt(t, m.session, append(recovery, "--yes-i-know", id)...)
	if status != exitOK || !strings.HasPrefix(out, "recovered or restored already") {
		t.Errorf("run again it exits with %d: %s", status, out)
	}
	// What is asked for besides is not passed over.
	for _, other := range [][]string{{"--incarnation", "2"}, {"--raft-advertise", "127.0.0.1:9011"}} {
		refused(t, m.session, exitFailed, "already, in incarnation 3 at 127.0.0.1:9010, not ", append(append(recovery, "--yes-i-know", id), other...)...)
	}
	// The next steps can be run as they stand.
	for _, command := range []string{"lancemaster serve --data-dir " + dir + " --node-id m1 --raft-advertise 127.0.0.1:9010\n", "lancemaster cluster reopen --note \"what happened\"\n"} {
		if !strings.Contains(out, command) {
			t.Errorf("%q is not among the next steps:\n%s", command, out)
		}
	}
	if !strings.Contains(out, "and move their data directories away; keep") || strings.Contains(out, "wipe") {
		t.Errorf("what docs/backup.md says of other masters' data directories is not said:\n%s", out)
	}
	m = serve(t, dir)
	wantQuarantine(t, m.session, 3, first)
	m.stop(t)

	// On another disk, past incarnations that only other disks know of: one quarantine, of the last.
	other := filepath.Join(t.TempDir(), "other")
	run(t, m.session, &result, at(other, "--expect-cluster-id", id)...)
	later := at(other, "--incarnation", "5", "--expect-cluster-id", id)
	refused(t, m.session, exitFailed, "already, in incarnation 2 at 127.0.0.1:9010, not in incarnation 5; nothing was changed; with --replace", later...)
	m.typed = []string{"no\n"}
	refused(t, m.session, exitFailed, "restored or recovered already, for incarnation 2. That is given up.", at(other, "--incarnation", "5", "--replace")...)
	m.typed = nil
	run(t, m.session, &result, append(later, "--replace")...)
	if result.Incarnation != 5 || result.Already || result.KeptIn == "" {
		t.Errorf("the result is %+v", result)
	}
	run(t, m.session, &result, later...)
	if result.Incarnation != 5 || !result.Already || result.Address != "127.0.0.1:9010" {
		t.Errorf("run again: %+v", result)
	}
	m = serve(t, other)
	wantQuarantine(t, m.session, 5, first)
	m.stop(t)
	if told := m.log.String(); strings.Count(told, "the cluster is in quarantine") != 1 || !strings.Contains(told, `"incarnation":5`) {
		t.Errorf("of the quarantine it says\n%s", told)
	}
}
