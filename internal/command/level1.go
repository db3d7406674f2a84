//go:build !nextlevel

package command

// MaxLevel is the highest feature level this build can read and write.
const MaxLevel int32 = 1

// amend adds what higher levels bring to the table of commands: nothing in this
// build.
func amend(table []kind) []kind { return table }
