package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobListCmd() *cobra.Command {
	var (
		q                client.JobQuery
		open, unresolved bool
		since, until     string
	)
	cmd := a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long: `List jobs, newest first. Conditions are combined: a job is listed when all hold. --state and
--refresh may be repeated or take a list, and then any of them is enough.

HOLDS says what a job still keeps: its index name, a slot on its backend. Times are UTC. --since and
--until are about the time of admission, and take a time like 2026-03-01T12:00:00Z or a duration before
now like 24h.

A page has at most --limit jobs (1 to 1000). Where there are more, the way to the next page is told on
stderr, and in json and yaml is the field next_page_token.

` + exitPlain,
		Example: `  lancemaster job list
  lancemaster job list --state PENDING,RUNNING --since 24h
  lancemaster job list --catalog local --table demo.items -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("open") {
			q.Open = &open
		}
		if cmd.Flags().Changed("unresolved") {
			q.Unresolved = &unresolved
		}
		if err := between(&q, since, until, time.Now()); err != nil {
			return err
		}
		if err := checkJobQuery(cmd, &q); err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error { return a.jobList(ctx, c, q) })
	})
	f := cmd.Flags()
	f.StringSliceVar(&q.States, "state", nil, "PENDING, RUNNING, COMMITTED, NOT_COMMITTED or UNKNOWN")
	f.StringSliceVar(&q.RefreshStates, "refresh", nil, "NOT_REQUIRED, REQUIRED, RUNNING, DONE or FAILED")
	f.BoolVar(&open, "open", false, "only jobs that hold a name or a slot; =false: only those that hold nothing")
	f.BoolVar(&unresolved, "unresolved", false, "only jobs that hold their index name; =false: only those that do not")
	f.StringVar(&q.Catalog, "catalog", "", "only this catalog's")
	f.StringVar(&q.Table, "table", "", "only this table's, DATABASE.TABLE, split at the first dot; needs --catalog")
	f.StringVar(&q.Dataset, "dataset", "", "only this dataset's, a URI")
	f.StringVar(&q.IndexName, "index", "", "only this index name's, in any spelling")
	f.Int64Var(&q.BackendID, "backend", 0, "only those sent to this backend")
	f.StringVar(&since, "since", "", "only those admitted at or after this time")
	f.StringVar(&until, "until", "", "only those admitted before this time")
	f.IntVar(&q.Limit, "limit", 100, "jobs on one page, 1 to 1000")
	f.StringVar(&q.PageToken, "page-token", "", "go on where the page before ended")
	a.complete(cmd, "state", states...)
	a.complete(cmd, "refresh", refreshStates...)
	return a.staleRead(cmd)
}

// checkJobQuery refuses conditions that cannot be meant.
func checkJobQuery(cmd *cobra.Command, q *client.JobQuery) error {
	if err := filled(cmd, "state", "refresh", "catalog", "table", "dataset", "index", "since", "until"); err != nil {
		return err
	}
	if cmd.Flags().Changed("backend") && q.BackendID < 1 {
		return usagef("--backend %d is not the id of a backend: a whole number from 1", q.BackendID)
	}
	if q.Table != "" {
		if q.Catalog == "" {
			return usagef("--table needs --catalog: the same table name may be in several")
		}
		if _, _, err := parseTable(q.Table); err != nil {
			return err
		}
	}
	if q.Limit < 1 || q.Limit > 1000 {
		return usagef("--limit %d is not from 1 to 1000", q.Limit)
	}
	if err := checkWords("--state", q.States, states); err != nil {
		return err
	}
	return checkWords("--refresh", q.RefreshStates, refreshStates)
}

// between reads the times that the jobs were admitted between.
func between(q *client.JobQuery, since, until string, now time.Time) (err error) {
	if q.Since, err = parseInstant("--since", since, now); err != nil {
		return err
	}
	if q.Until, err = parseInstant("--until", until, now); err != nil {
		return err
	}
	if since != "" && until != "" && !q.Since.Before(q.Until) {
		return usagef("--until %s is not after --since %s: no job can be between", until, since)
	}
	return nil
}

var (
	states        = []string{client.StatePending, client.StateRunning, client.StateCommitted, client.StateNotCommitted, client.StateUnknown}
	refreshStates = []string{"NOT_REQUIRED", "REQUIRED", "RUNNING", "DONE", "FAILED"}
)

// checkWords turns words into upper case and refuses those that are not known.
func checkWords(flag string, words, known []string) error {
	for i, w := range words {
		words[i] = strings.ToUpper(w)
		if !slices.Contains(known, words[i]) {
			return usagef("%s %q is not one of %s", flag, w, strings.Join(known, ", "))
		}
	}
	return nil
}

var jobColumns = []column{
	{name: "JOB"}, {name: "STATE", kind: stateCell}, {name: "REFRESH", kind: stateCell}, {name: "MUTATION"}, {name: "INDEX", kind: textCell},
	{name: "TABLE", kind: textCell}, {name: "BACKEND"}, {name: "HOLDS"}, {name: "CREATED"}, {name: "TYPE", wide: true},
	{name: "COLUMN", kind: textCell, wide: true}, {name: "RESULT", wide: true}, {name: "DATASET", kind: textCell, wide: true},
	{name: "BY", kind: textCell, wide: true}, {name: "UPDATED", wide: true},
}

// resultCode is the code that a job ended with; where it was never sent, the reason.
func resultCode(j *client.Job) string {
	if j.Result == nil {
		return ""
	}
	if j.Result.Code == "" { // it never got as far as a backend
		return j.Result.Reason
	}
	return j.Result.Code
}

func (a *cli) jobList(ctx context.Context, c *client.Client, q client.JobQuery) error {
	list, err := c.Jobs(ctx, q)
	if err != nil {
		return err
	}
	err = a.print(list, func(out *page) {
		t := newTable(out, jobColumns)
		for i := range list.Jobs {
			j := &list.Jobs[i]
			t.row(number(j.ID), j.State, j.Refresh.State, j.Intent.Mutation, j.Target.IndexName,
				fmt.Sprintf("%s/%s.%s", j.Target.Catalog, j.Target.Database, j.Target.Table), backendOf(j), holds(j), moment(j.CreatedAt),
				j.Intent.IndexType, j.Intent.Column, resultCode(j), j.Target.Locator, j.Creator, moment(j.UpdatedAt))
		}
		t.end()
	})
	if err == nil && list.NextPageToken != "" && (a.output == "table" || a.output == "wide" || a.output == "name") {
		fmt.Fprintf(a.Err, "next page: add --page-token %s\n", clean(list.NextPageToken))
	}
	return err
}

func backendOf(j *client.Job) string {
	if j.Dispatch == nil {
		return ""
	}
	return number(j.Dispatch.BackendID)
}

// holds says what a job keeps others from.
func holds(j *client.Job) string {
	var out []string
	if j.FenceHeld {
		out = append(out, "name")
	}
	if j.SlotHeld {
		out = append(out, "slot")
	}
	return strings.Join(out, ",")
}
