package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *cli) indexDropCmd() *cobra.Command {
	var v submissionFlags
	cmd := a.leaf(&cobra.Command{
		Use:   "drop NAME",
		Short: "Drop an index",
		Long: `Drop an index. The name is found in any spelling. With --if-exists a missing index is left alone, without
a job.

` + submissionHelp + `

` + exitWait + `
Without --wait: 0 admitted, existing, a dry run or nothing to do; 1 and 2 as above.`,
		Example: `  lancemaster index drop demo_vec --catalog local --table demo.items \
      --dataset file:///data/items.lance --if-exists --wait`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		v.s.Mutation = "DROP"
		if err := v.finish(cmd, args[0]); err != nil {
			return err
		}
		return a.submit(ctx, &v)
	})
	cmd.Flags().BoolVar(&v.s.IfExists, "if-exists", false, "do nothing if the index is missing")
	a.addSubmissionFlags(cmd, &v)
	return cmd
}
