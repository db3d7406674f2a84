package cli

import "github.com/spf13/cobra"

// commands are the commands of the root, in no order: help sorts them.
func (a *cli) commands() []*cobra.Command {
	return []*cobra.Command{
		a.serveCmd(), a.devCmd(),
		a.indexCmd(), a.datasetCmd(), a.jobCmd(), a.catalogCmd(), a.backendCmd(), a.settingsCmd(),
		a.clusterCmd(), a.snapshotCmd(), a.tokenCmd(),
		a.listing(a.healthCmd(), healthColumns), a.doctorCmd(), a.configCmd(), a.tlsCmd(), a.versionCmd(), a.completionCmd(),
	}
}
