package cli

import "github.com/spf13/cobra"

func (a *cli) indexCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "index",
		Short: "Create, replace, drop and list dataset indexes",
		Long: `Create, replace, drop and list dataset indexes. A change is a job: it is admitted, sent to a backend once,
and followed to its end.

` + exitPlain,
		Example: `  lancemaster index create demo_vec --catalog local --table demo.items --dataset file:///data/items.lance \
      --column vec --type ivf_pq --property num_partitions=2 --property num_sub_vectors=4 --wait
  lancemaster index list --dataset file:///data/items.lance`,
	}, a.nameable(a.indexCreateCmd()), a.nameable(a.indexDropCmd()), a.listing(a.indexListCmd(), indexColumns))
}
