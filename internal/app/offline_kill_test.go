package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// The victim is this test binary, started anew to end by its own hand, as kill -9 would end it, between
// two steps of a restore or a recovery.
const (
	victimEnv = "LANCEMASTER_OFFLINE_VICTIM" // restore FILE DIR, or recover DIR [INCARNATION]
	killAtEnv = "LANCEMASTER_OFFLINE_KILL_AT"
)

func init() {
	if words := strings.Fields(os.Getenv(victimEnv)); len(words) > 0 {
		os.Exit(victim(words))
	}
}

func victim(words []string) int {
	left, err := strconv.Atoi(os.Getenv(killAtEnv))
	if err != nil {
		fmt.Println(err)
		return 2
	}
	step := func(name string) {
		if left--; left > 0 {
			return
		}
		fmt.Println(name)
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		fmt.Println("survived", err)
		select {}
	}
	if err := operate(words, step); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// operate runs the operation that is named, replacing what is there.
func operate(words []string, step func(string)) error {
	switch words[0] {
	case "restore":
		o := restoreOptions(words[1], words[2])
		o.Replace, o.step = true, step
		_, err := Restore(context.Background(), o)
		return err
	case "recover":
		o := recoverOptions(words[1])
		o.step = step
		if len(words) > 2 {
			incarnation, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil {
				return err
			}
			o.Incarnation = incarnation
		}
		_, err := Recover(context.Background(), o)
		return err
	default:
		return fmt.Errorf("%q is no operation", words[0])
	}
}

// killed runs the operation in a process that ends at a step, and returns that step's name; empty if
// the operation has fewer steps and was done.
func killed(t *testing.T, at int, words ...string) (step string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+strings.Join(words, " "), killAtEnv+"="+strconv.Itoa(at))
	out, err := cmd.Output()
	if err == nil {
		return ""
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Exited() || ctx.Err() != nil {
		t.Fatalf("the victim ended with %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// side says which content counts in a directory as a node would find it at its start.
func side(t *testing.T, dir string, old identity, oldSum job.Hash) (isNew bool) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false
	}
	lock, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.release(); err != nil {
			t.Error(err)
		}
	}()
	if err := settleDataDir(dir, func(string) {}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{unfinishedDir, newDataDir} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left (%v)", name, err)
		}
	}
	id, err := readIdentity(dir)
	if old.NodeID == "" && errors.Is(err, os.ErrNotExist) {
		wantFiles(t, dir, lockFile)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if id.Pending == nil {
		if id.InstanceID != old.InstanceID || stateHash(t, dir) != oldSum {
			t.Errorf("the directory is neither the old one nor the new: %+v", id)
		}
		wantFiles(t, dir, lockFile, identityFile, raftDir, stateFile)
		return false
	}
	return true
}

// killEverywhere ends an operation at each of its steps, looks at what is left, and runs it again to
// its end; now and then it is killed a second time before that.
func killEverywhere(t *testing.T, fresh func(t *testing.T) (dir string, old identity, oldSum job.Hash),
	words func(dir string) []string, check func(t *testing.T, dir string),
) {
	turned := ""
	for at := 1; ; at++ {
		dir, old, oldSum := fresh(t)
		step := killed(t, at, words(dir)...)
		if step == "" {
			if at < 10 || turned == "" {
				t.Fatalf("there were %d steps only, and the new content never counted", at-1)
			}
			check(t, dir)
			return
		}
		looked := copyOf(t, dir)
		isNew := side(t, looked, old, oldSum)
		switch {
		case isNew && turned == "":
			turned = step
			if step != "move begun" {
				t.Errorf("the new content counts from %q on", step)
			}
		case !isNew && turned != "":
			t.Errorf("killed at %q the old content counts, but the new one did at %q", step, turned)
		}
		if at%3 == 0 {
			killed(t, at, words(dir)...)
		}
		if step := killed(t, 1000, words(dir)...); step != "" {
			t.Fatalf("the operation is killed at %q", step)
		}
		check(t, dir)
		if t.Failed() {
			t.Fatalf("that was after being killed at step %d, %q", at, step)
		}
	}
}

// copyOf copies a directory, so that looking at it changes nothing.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return to
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestARestoreSurvivesKills(t *testing.T) {
	t.Parallel()
	file, sum, _ := saveFile(t, testCluster, 6)
	words := func(dir string) []string { return []string{"restore", file, dir} }
	check := func(t *testing.T, dir string) {
		t.Helper()
		id, err := readIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		if id.Pending == nil || id.Pending.Incarnation != 2 || stateHash(t, dir) != sum {
			t.Errorf("the restored identity is %+v", id)
		}
	}
	t.Run("into nothing", func(t *testing.T) {
		t.Parallel()
		killEverywhere(t, func(t *testing.T) (string, identity, job.Hash) {
			return filepath.Join(t.TempDir(), "data"), identity{}, job.Hash{}
		}, words, func(t *testing.T, dir string) {
			t.Helper()
			check(t, dir)
			wantFiles(t, dir, lockFile, identityFile, raftDir, stateFile)
		})
	})
	t.Run("replacing", func(t *testing.T) {
		t.Parallel()
		var kept string
		killEverywhere(t, func(t *testing.T) (string, identity, job.Hash) {
			dir, id, oldSum := oldDir(t, testCluster, 2)
			kept = fingerprint(t, dir)
			return dir, id, oldSum
		}, words, func(t *testing.T, dir string) {
			t.Helper()
			check(t, dir)
			const aside = "replaced-20260301T120000Z"
			wantFiles(t, dir, lockFile, identityFile, raftDir, aside, stateFile)
			if got := fingerprint(t, filepath.Join(dir, aside)); got != kept {
				t.Errorf("kept is\n%s\nof\n%s", got, kept)
			}
		})
	})
}

// A description of a move that makes no sense moves nothing.
func TestAMoveThatIsDamagedIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "{", "no name": "{}", "another name": `{"aside":"raft"}`, "out of the directory": `{"aside":"replaced-/../.."}`,
	} {
		dir := usedDir(t)
		if err := os.Mkdir(filepath.Join(dir, newDataDir), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, newDataDir, moveFile), text)
		writeFile(t, filepath.Join(dir, newDataDir, identityFile), "new")
		before := fingerprint(t, dir)
		if err := settleDataDir(dir, func(string) {}); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s: %v", name, err)
		}
		if after := fingerprint(t, dir); after != before {
			t.Errorf("%s: it changed\n%s\nto\n%s", name, before, after)
		}
	}
}
