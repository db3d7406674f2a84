package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) settingsCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "settings",
		Short: "Read and change the cluster's settings",
		Long: `Read and change the cluster's settings, which all masters share and which take effect at once. What
belongs to one node (addresses, directories, the log) is in its configuration: see lancemaster serve.

` + exitPlain,
		Example: `  lancemaster settings list
  lancemaster settings set admission.enabled=true`,
	}, a.listing(a.settingsListCmd(), settingColumns), a.settingsGetCmd(), a.listing(a.settingsSetCmd(), settingColumns),
		a.listing(a.settingsResetCmd(), settingColumns), a.tabled(a.settingsHistoryCmd(), changeColumns))
}

// named picks the settings of these names: a change answers with all that there are.
func named(list []client.Setting, names []string) []client.Setting {
	return slices.DeleteFunc(list, func(s client.Setting) bool { return !slices.Contains(names, s.Name) })
}

var settingColumns = []column{
	{name: "SETTING"}, {name: "VALUE"}, {name: "DEFAULT"}, {name: "TYPE"}, {name: "CHANGED"}, {name: "BY", kind: textCell}, {name: "HELP", kind: textCell},
}

func (a *cli) printSettings(list []client.Setting) error {
	value := struct {
		Settings []client.Setting `json:"settings"`
	}{list}
	return a.print(value, func(out *page) {
		t := newTable(out, settingColumns)
		for _, s := range list {
			t.row(s.Name, s.Value, s.Default, s.Type, moment(s.ChangedAt), s.ChangedBy, s.Help)
		}
		t.end()
	})
}
