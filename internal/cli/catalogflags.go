package cli

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lancemaster/lancemaster/internal/client"
)

// catalogFlags are what catalog create and catalog update have in common.
type catalogFlags struct {
	store     string
	options   []string
	secrets   []string
	refresher client.Refresher
	timeout   time.Duration
}

var refreshers = []string{"none", "http", "doris"}

const catalogHelp = `Two catalogs over the same store (by default the endpoint option, else the URI scheme) share the names
that jobs hold. --option takes a literal value, --secret-option a reference: file:/absolute/path or
env:NAME. A value that is a secret must be given as a reference.

The refresher says how the metadata is refreshed after a change: none; http (a POST to --refresh-url, done
on a 2xx answer); doris (REFRESH TABLE on the --refresh-frontend list, over the MySQL protocol).`

func (a *cli) addCatalogFlags(cmd *cobra.Command, v *catalogFlags) {
	f := cmd.Flags()
	f.StringVar(&v.store, "store", "", "the store's identity; default: the endpoint option, else the URI scheme")
	f.StringArrayVar(&v.options, "option", nil, "KEY=VALUE, a storage option that is no secret; may be repeated")
	f.StringArrayVar(&v.secrets, "secret-option", nil, "KEY=REFERENCE, a storage option by reference; may be repeated")
	f.StringVar(&v.refresher.Kind, "refresher", "none", "none, http or doris")
	f.StringVar(&v.refresher.URL, "refresh-url", "", "where the http refresher posts to")
	f.StringSliceVar(&v.refresher.Frontends, "refresh-frontend", nil, "host:port of the doris refresher's frontends; may be repeated")
	f.StringVar(&v.refresher.User, "refresh-user", "", "the refresher's user")
	f.StringVar(&v.refresher.PasswordRef, "refresh-password", "", "reference of the doris password or of the http Bearer token: file:/absolute/path or env:NAME")
	f.StringVar(&v.refresher.CARef, "refresh-ca", "", "reference of the CA certificates to trust")
	f.BoolVar(&v.refresher.TLS, "refresh-tls", false, "use TLS towards the frontends")
	f.DurationVar(&v.timeout, "refresh-timeout", 0, "bound of one refresh, 100ms to 10m; default: 30s")
	a.complete(cmd, "refresher", refreshers...)
}

// checkUpdate refuses what an update cannot mean, before anybody is asked.
func (v *catalogFlags) checkUpdate(cmd *cobra.Command, unset []string) error {
	given := false
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	if !given {
		return usagef("nothing is to be changed: give at least one flag that says what")
	}
	for _, pair := range slices.Concat(v.options, v.secrets) {
		if key, _, _ := strings.Cut(pair, "="); slices.Contains(unset, key) {
			return usagef("the option %q is both set and unset", key)
		}
	}
	return nil
}

// advise names the flag that takes a reference, where a literal option was refused for
// being a secret.
func (v *catalogFlags) advise(err error) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Code != client.CodeInvalid || !strings.Contains(e.Message, "looks like a secret") {
		return err
	}
	for _, pair := range v.options {
		key, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(e.Message, fmt.Sprintf("storage option %q", key)) {
			told := *e
			told.Next = fmt.Sprintf("put the secret into a file on each master, and give it by reference: --secret-option %s=file:/absolute/path (or env:NAME)", shellQuoted(key))
			return &told
		}
	}
	return err
}

// apply changes a catalog as the flags given say, and leaves the rest.
func (v *catalogFlags) apply(cmd *cobra.Command, k *client.Catalog) error {
	changed := cmd.Flags().Changed
	if changed("store") {
		k.Store = v.store
	}
	literals, err := parsePairs("--option", v.options)
	if err != nil {
		return err
	}
	references, err := parsePairs("--secret-option", v.secrets)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, p := range slices.Concat(literals, references) {
		if given[p.Key] {
			return usagef("the option %q is given twice", p.Key)
		}
		given[p.Key] = true
	}
	k.Options = slices.DeleteFunc(k.Options, func(o client.StorageOption) bool { return given[o.Key] })
	for _, p := range literals {
		k.Options = append(k.Options, client.StorageOption{Key: p.Key, Value: p.Value})
	}
	for _, p := range references {
		if !strings.HasPrefix(p.Value, "file:") && !strings.HasPrefix(p.Value, "env:") {
			// What was given is not repeated: it may be the secret itself.
			return usagef("--secret-option %s: not a reference; give file:/absolute/path or env:NAME", p.Key)
		}
		k.Options = append(k.Options, client.StorageOption{Key: p.Key, Ref: p.Value})
	}
	sort.Slice(k.Options, func(i, j int) bool { return k.Options[i].Key < k.Options[j].Key })
	return v.applyRefresher(cmd, &k.Refresher)
}

func (v *catalogFlags) applyRefresher(cmd *cobra.Command, r *client.Refresher) error {
	changed := cmd.Flags().Changed
	if changed("refresh-timeout") && v.timeout < time.Millisecond {
		return usagef("--refresh-timeout %s is not positive", v.timeout)
	}
	if changed("refresher") {
		if !slices.Contains(refreshers, v.refresher.Kind) {
			return usagef("--refresher %q is not none, http or doris", v.refresher.Kind)
		}
		if r.Kind != v.refresher.Kind {
			*r = client.Refresher{} // what another kind needed means nothing to this one
		}
		r.Kind = v.refresher.Kind
	}
	if r.Kind == "" {
		r.Kind = "none"
	}
	for flag, set := range map[string]func(){
		"refresh-url":      func() { r.URL = v.refresher.URL },
		"refresh-frontend": func() { r.Frontends = v.refresher.Frontends },
		"refresh-user":     func() { r.User = v.refresher.User },
		"refresh-password": func() { r.PasswordRef = v.refresher.PasswordRef },
		"refresh-ca":       func() { r.CARef = v.refresher.CARef },
		"refresh-tls":      func() { r.TLS = v.refresher.TLS },
		"refresh-timeout":  func() { r.Timeout = client.Duration(v.timeout) },
	} {
		if changed(flag) {
			set()
		}
	}
	return nil
}
