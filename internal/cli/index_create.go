package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *cli) indexCreateCmd() *cobra.Command {
	var (
		v     submissionFlags
		pairs []string
		again bool
	)
	cmd := a.leaf(&cobra.Command{
		Use:        "create NAME",
		SuggestFor: []string{"add", "build"},
		Short:      "Create or replace an index",
		Long: `Create an index, or with --replace build an existing one anew (one that is missing is created).

Types and their properties:
  ivf_pq   num_partitions (required; 1 to the setting admission.max_num_partitions),
           num_sub_vectors (required; 1 to admission.max_num_sub_vectors, dividing the vectors' dimension),
           metric l2, cosine or dot (default l2), num_bits 8
  btree    none
  bitmap   none

With --if-not-exists an index that is there as asked for is left alone, without a job.

` + submissionHelp + `

` + exitWait + `
Without --wait: 0 admitted, existing, a dry run or nothing to do; 1 and 2 as above.`,
		Example: `  lancemaster index create demo_vec --catalog local --table demo.items --dataset file:///data/items.lance \
      --column vec --type ivf_pq --property metric=l2 --property num_partitions=2 --property num_sub_vectors=4
  lancemaster index create by_title --catalog local --table demo.items --dataset file:///data/items.lance \
      --column title --type btree --if-not-exists --wait --timeout 30m`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) (err error) {
		v.s.Mutation = "CREATE"
		if again {
			v.s.Mutation = "REPLACE"
		}
		if again && v.s.IfNotExists {
			return usagef("--replace and --if-not-exists exclude each other")
		}
		if v.s.Properties, err = parsePairs("--property", pairs); err != nil {
			return err
		}
		if err := v.finish(cmd, args[0]); err != nil {
			return err
		}
		return a.submit(ctx, &v)
	})
	f := cmd.Flags()
	f.StringVar(&v.s.Column, "column", "", "the column to index (required)")
	f.StringVar(&v.s.IndexType, "type", "", "ivf_pq, btree or bitmap (required)")
	f.StringArrayVar(&pairs, "property", nil, "KEY=VALUE, a property of the index; may be repeated")
	f.BoolVar(&v.s.IfNotExists, "if-not-exists", false, "do nothing if the index is there as asked for")
	f.BoolVar(&again, "replace", false, "replace the index if it exists")
	f.StringVar(&v.contract, "schema-contract", "", "the column's schema contract, JSON or @FILE, at most 64 KiB; needs --dataset-version")
	a.addSubmissionFlags(cmd, &v)
	require(cmd, "column")
	require(cmd, "type")
	a.complete(cmd, "type", "ivf_pq", "btree", "bitmap")
	return cmd
}
