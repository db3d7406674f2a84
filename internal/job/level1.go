//go:build !nextlevel

package job

// LevelOf returns the lowest feature level that knows all that a command or a
// record holds.
func LevelOf(any) int32 { return 1 }

// What higher levels add to commands and records, and do: nothing in this build.
type (
	laterTermStart struct{}
	laterCluster   struct{}
)

func (laterTermStart) inCluster() laterCluster { return laterCluster{} }

func applyLater(_ View, _ Position, c Command) (Change, *Refusal) { return Change{}, unknownCommand(c) }
