package testcluster

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/client"
)

// A token can be used at any master once it was handed out, also where the entry with it has not come yet.
func TestANewTokenIsKnownEverywhere(t *testing.T) {
	dir, root := memory(t), auth.NewToken()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, fmt.Appendf(nil, "root admin %x\n", sha256.Sum256([]byte(root))), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Dir: dir, Masters: masters, Seed: 1, Overrides: map[string]string{"admin.auth": "required", "admin.tokens_file": tokens}})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.Net.Heal()
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}()
		leader, err := c.WaitLeader(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		follower := c.Masters[0]
		if follower == leader {
			follower = c.Masters[1]
		}
		with := func(token string, m *Master) *client.Client {
			api, err := client.New(client.Config{Addresses: []string{m.AdminAddr()}, Token: token, Dial: c.Net.Host(ClientAddr(0)).Dial, CallTimeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = api.Close() })
			return api
		}
		admin := with(root, leader)
		c.Net.Slow(leader.Addr, follower.Addr, 200*time.Millisecond)
		for i := range 30 { // more than may fail
			made, err := admin.CreateToken(t.Context(), fmt.Sprint("t-", i), "read")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := with(made.Text, follower).Status(t.Context(), follower.AdminAddr()); err != nil {
				t.Fatalf("token %d: %v", i, err)
			}
		}
		if _, err := with(auth.NewToken(), follower).Status(t.Context(), follower.AdminAddr()); !client.IsCode(err, "UNAUTHENTICATED") {
			t.Errorf("a token that nobody made: %v", err)
		}
	})
}
