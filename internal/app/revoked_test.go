package app_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
)

// tokened starts three masters that ask everybody for a token, of which root is in each one's own file.
func tokened(t *testing.T, n *names) (masters []*master, root string, settings map[string]string) {
	t.Helper()
	root = auth.NewToken()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, fmt.Appendf(nil, "root admin %x\n", sha256.Sum256([]byte(root))), 0o600); err != nil {
		t.Fatal(err)
	}
	settings = map[string]string{"admin.auth": "required", "admin.tokens_file": file}
	for i := range 3 {
		m := &master{names: n, number: i + 1, dir: filepath.Join(t.TempDir(), "data")}
		masters = append(masters, m)
		t.Cleanup(func() { m.stop(t) })
		m.start(t, settings)
	}
	return masters, root, settings
}

func bearer(t *testing.T, token string, masters ...*master) *client.Client {
	t.Helper()
	var addresses []string
	for _, m := range masters {
		addresses = append(addresses, m.names.of(m.at(9021)))
	}
	c, err := client.New(client.Config{Addresses: addresses, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func refusedAs(t *testing.T, err error, code, doing string) {
	t.Helper()
	if e, ok := err.(*client.Error); !ok || e.Code != code { //nolint:errorlint // the client returns nothing else
		t.Errorf("%s: %v, want %s", doing, err, code)
	}
}

// Once a revocation has been acknowledged the token changes nothing and reads nothing that is current, whichever
// master is called: a follower hears of what was committed a moment later than whoever revoked.
func TestARevokedTokenIsWorthlessEverywhere(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
	defer cancel()
	masters, root, _ := tokened(t, &names{bound: map[string]string{}})
	admin := bearer(t, root, masters...)
	// At each master two logins of a round fail, all from one address, which may fail ten times before a new token is
	// not looked into either by a master that has not heard of it.
	for round := range 4 {
		name := fmt.Sprint("ci-", round)
		token, err := admin.CreateToken(ctx, name, "admin")
		if err != nil {
			t.Fatal(err)
		}
		var holders []*client.Client
		for _, m := range masters {
			c := bearer(t, token.Text, m)
			if _, err := c.Tokens(ctx); err != nil {
				t.Fatal(err)
			}
			holders = append(holders, c)
		}
		if err := admin.RevokeToken(ctx, name); err != nil {
			t.Fatal(err)
		}
		for i, c := range holders {
			_, err := c.CreateToken(ctx, fmt.Sprintf("%s-%d", name, i), "admin")
			refusedAs(t, err, "UNAUTHENTICATED", fmt.Sprintf("a change through m%d", i+1))
			_, err = c.Tokens(ctx)
			refusedAs(t, err, "UNAUTHENTICATED", fmt.Sprintf("a read through m%d", i+1))
		}
	}
	tokens, err := admin.Tokens(ctx)
	if err != nil || len(tokens) != 0 {
		t.Errorf("there are %+v, %v", tokens, err)
	}
}

// A master that is cut off cannot tell whether a token is new. That keeps nobody from the others: neither a read nor
// a change, which is made once.
func TestANewTokenAndAMasterThatIsCutOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
	defer cancel()
	n := &names{bound: map[string]string{}}
	masters, root, settings := tokened(t, n)
	m1, m2, m3 := masters[0], masters[1], masters[2]
	if !await.Poll(50*time.Millisecond, time.Minute, func() bool {
		s, err := bearer(t, root, m3).Cluster(ctx)
		return err == nil && len(s.Members) == 3
	}) {
		t.Fatal("m3 does not take part")
	}
	m3.stop(t)
	token, err := bearer(t, root, m1, m2).CreateToken(ctx, "new", "admin")
	if err != nil {
		t.Fatal(err)
	}
	// It comes back where nobody reaches it, and reaches nobody.
	alone := map[string]string{"raft.listen": "127.0.0.3:9911", "cluster.members": "m1=127.0.0.1:9999,m2=127.0.0.2:9999,m3=127.0.0.3:9010"}
	for k, v := range settings {
		alone[k] = v
	}
	m3.start(t, alone)
	_, err = bearer(t, token.Text, m3).Catalogs(ctx)
	refusedAs(t, err, client.CodeNotLeader, "a read at the one that is cut off")
	if err != nil && !strings.Contains(err.Error(), "this access token is not known here, and this master cannot tell now whether it is new") {
		t.Errorf("it does not say why: %v", err)
	}
	if _, err := bearer(t, token.Text, m3, m1, m2).Catalogs(ctx); err != nil {
		t.Errorf("a read: %v", err)
	}
	if _, err := bearer(t, token.Text, m3, m1, m2).PutCatalog(ctx, client.Catalog{Name: "x", Store: "s3", Refresher: client.Refresher{Kind: "none"}}); err != nil {
		t.Errorf("a change: %v", err)
	}
}
