// Command reference writes the man pages and the completion scripts of both programs:
//
//	go run ./.ci/reference DIR
//
// makes DIR/man1 and DIR/completions. The man pages carry a date only when SOURCE_DATE_EPOCH gives it.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/cli"
	"github.com/lancemaster/lancemaster/internal/clidocs"
	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/stubcli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	man, completions := filepath.Join(dir, "man1"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // it becomes part of an archive, for all to read
			return err
		}
	}
	date := ""
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	}
	for _, program := range []*cobra.Command{cli.Command(), stubcli.Command(io.Discard, io.Discard)} {
		for name, text := range clidocs.Man(program, date, config.BuildInfo().Version) {
			if err := os.WriteFile(filepath.Join(man, name), []byte(text), 0o644); err != nil { //nolint:gosec // likewise
				return err
			}
		}
		name := program.Name()
		for file, generate := range map[string]func(io.Writer) error{
			name + ".bash": func(w io.Writer) error { return program.GenBashCompletionV2(w, true) },
			"_" + name:     program.GenZshCompletion,
			name + ".fish": func(w io.Writer) error { return program.GenFishCompletion(w, true) },
		} {
			if err := toFile(filepath.Join(completions, file), generate); err != nil {
				return err
			}
		}
	}
	return nil
}

func toFile(path string, generate func(io.Writer) error) error {
	file, err := os.Create(path) //nolint:gosec // in the folder that the caller names
	if err != nil {
		return err
	}
	if err := generate(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
