package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *cli) completionCmd() *cobra.Command {
	cmd := a.leaf(&cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell",
		Long: `Print the completion script of a shell: bash, zsh, fish or powershell.

` + exitPlain,
		Example: `  source <(lancemaster completion bash)
  lancemaster completion zsh > "${fpath[1]}/_lancemaster"
  lancemaster completion fish > ~/.config/fish/completions/lancemaster.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
	}, func(_ context.Context, cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(a.Out, true)
		case "zsh":
			return root.GenZshCompletion(a.Out)
		case "fish":
			return root.GenFishCompletion(a.Out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(a.Out)
		}
		return usagef("%q is not a shell that completion is written for: bash, zsh, fish or powershell", args[0])
	})
	return cmd
}
