package tlsconf_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// That the certificate in use nears its end is told at each step, once.
func TestTheEndOfACertificateIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := tlsconf.NewCA("ca", time.Now(), 90*day)
		if err != nil {
			t.Fatal(err)
		}
		r := master("a")
		r.Validity = 30 * day
		pair, err := tlsconf.Issue(authority, r, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p := newPlace(t, pair, authority)
		var said logs
		open(t, p, func(c *tlsconf.Config) { c.Interval, c.Logger = time.Hour, said.logger() })
		for _, step := range []struct {
			after             time.Duration
			warnings, expired int
		}{
			{19 * day, 0, 0}, {2 * day, 1, 0}, {7 * day, 1, 0}, {day + 2*time.Hour, 2, 0}, {day, 2, 1}, {3 * day, 2, 1},
		} {
			await.Pass(step.after)
			warnings, expired := strings.Count(said.String(), "expires soon"), strings.Count(said.String(), "has expired")
			if warnings != step.warnings || expired != step.expired {
				t.Errorf("%s later: %d warnings and %d of the end, want %d and %d", step.after, warnings, expired, step.warnings, step.expired)
			}
		}
		r.Validity = 60 * day
		if pair, err = tlsconf.Issue(authority, r, time.Now()); err != nil {
			t.Fatal(err)
		}
		p.put(pair)
		await.Pass(2 * day)
		if strings.Count(said.String(), "expires soon") != 2 {
			t.Errorf("of the new certificate: %s", said.String())
		}
	})
}

// Nor is it passed over while the files in its place cannot be loaded, as after a renewal that went wrong.
func TestTheEndOfACertificateIsToldWhileItsRenewalIsFaulty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := tlsconf.NewCA("ca", time.Now(), 90*day)
		if err != nil {
			t.Fatal(err)
		}
		r := master("a")
		r.Validity = 30 * day
		pair, err := tlsconf.Issue(authority, r, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p := newPlace(t, pair, authority)
		var said logs
		open(t, p, func(c *tlsconf.Config) { c.Interval, c.Logger = time.Hour, said.logger() })
		write(t, p.Key, []byte("half a key"))
		for _, step := range []struct {
			after             time.Duration
			warnings, expired int
		}{
			{19 * day, 0, 0}, {2 * day, 1, 0}, {8*day + 2*time.Hour, 2, 0}, {day, 2, 1}, {3 * day, 2, 1},
		} {
			await.Pass(step.after)
			faults, warnings, expired := strings.Count(said.String(), "cannot load changed TLS files"),
				strings.Count(said.String(), "expires soon"), strings.Count(said.String(), "has expired")
			if faults != 1 || warnings != step.warnings || expired != step.expired {
				t.Errorf("%s later: the fault was told %d times, %d warnings and %d of the end, want 1, %d and %d",
					step.after, faults, warnings, expired, step.warnings, step.expired)
			}
		}
		p.put(pair)
		await.Pass(day)
		if got := strings.Count(said.String(), "has expired"); got != 1 {
			t.Errorf("with the old files back the end was told %d times", got)
		}
	})
}

func TestAKeyThatOthersMayReadIsWarnedOf(t *testing.T) {
	ca := newCA(t, "ca")
	p := newPlace(t, issue(t, ca, master("a")), ca)
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o604: true, 0o660: true} {
		if err := os.Chmod(p.Key, mode); err != nil {
			t.Fatal(err)
		}
		var said logs
		open(t, p, func(c *tlsconf.Config) { c.Logger = said.logger() })
		if got := strings.Contains(said.String(), "set its mode to 0600"); got != want {
			t.Errorf("mode %v: warned: %v, want %v", mode, got, want)
		}
	}
}

// A mode may change while what the file holds does not.
func TestAKeyThatIsOpenedToOthersLaterIsWarnedOf(t *testing.T) {
	ca := newCA(t, "ca")
	p := newPlace(t, issue(t, ca, master("a")), ca)
	var said logs
	source := open(t, p, func(c *tlsconf.Config) { c.Logger = said.logger() })
	for _, step := range []struct {
		mode     os.FileMode
		warnings int
	}{{0o600, 0}, {0o644, 1}, {0o644, 1}, {0o600, 1}, {0o604, 2}} {
		if err := os.Chmod(p.Key, step.mode); err != nil {
			t.Fatal(err)
		}
		reload(t, source)
		if got := strings.Count(said.String(), "set its mode to 0600"); got != step.warnings {
			t.Errorf("mode %#o: warned %d times, want %d", step.mode, got, step.warnings)
		}
	}
	p.put(issue(t, ca, master("a"))) // another key in the same open file
	reload(t, source)
	if got := strings.Count(said.String(), "set its mode to 0600"); got != 3 {
		t.Errorf("of another key that others may read: warned %d times", got)
	}
}

// A rotation of the CA goes on when each master says that it trusts both, or only the new one.
func TestTheCAsThatAreTrustedAreLogged(t *testing.T) {
	first, second := newCA(t, "first"), newCA(t, "second")
	p := newPlace(t, issue(t, first, master("a")), first)
	var said logs
	source := open(t, p, func(c *tlsconf.Config) { c.Uses, c.Logger = tlsconf.Uses(), said.logger() })
	fingerprint := func(p tlsconf.Pair) string {
		leaf, err := p.Leaf()
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(leaf.Raw)
		return fmt.Sprintf("(SHA-256 %x…)", sum[:4])
	}
	if want := `trusted="first ` + fingerprint(first) + `"`; !strings.Contains(said.String(), want) {
		t.Errorf("%s is not in %s", want, said.String())
	}
	p.trust(second, first)
	reload(t, source)
	if want := `trusted="first ` + fingerprint(first) + "; second " + fingerprint(second) + `"`; !strings.Contains(said.String(), want) {
		t.Errorf("%s is not in %s", want, said.String())
	}
	if n := strings.Count(said.String(), "TLS CAs loaded"); n != 2 {
		t.Errorf("%d lines for two loads", n)
	}
}

// The other masters hold a master's certificate against the CA file that it has itself, in a cluster where nothing
// is wrong. Other uses say nothing of it: whoever connects has a CA file of their own.
func TestACertificateOfACAThatItsOwnFileLacksIsWarnedOf(t *testing.T) {
	ca, other := newCA(t, "ca"), newCA(t, "other")
	for name, tc := range map[string]struct {
		uses  []tlsconf.Use
		trust []tlsconf.Pair
		want  bool
	}{
		"its own CA":                       {tlsconf.Uses(), []tlsconf.Pair{ca}, false},
		"its own among others":             {tlsconf.Uses(), []tlsconf.Pair{other, ca}, false},
		"its own with a new certificate":   {tlsconf.Uses(), []tlsconf.Pair{renewed(t, ca)}, false},
		"another":                          {tlsconf.Uses(), []tlsconf.Pair{other}, true},
		"another of the same name":         {[]tlsconf.Use{tlsconf.UseRaft}, []tlsconf.Pair{newCA(t, "ca")}, true},
		"another, and not between masters": {[]tlsconf.Use{tlsconf.UseAdmin, tlsconf.UseReport}, []tlsconf.Pair{other}, false},
	} {
		p := newPlace(t, issue(t, ca, master("a")), tc.trust...)
		var said logs
		source := open(t, p, func(c *tlsconf.Config) { c.Uses, c.Logger = tc.uses, said.logger() })
		reload(t, source)
		if got, want := strings.Count(said.String(), "leads to no CA"), map[bool]int{true: 1}[tc.want]; got != want {
			t.Errorf("%s: warned %d times, want %d", name, got, want)
		}
	}
}
