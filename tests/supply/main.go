// Command supply tells what the program is made of, and whether two builds of it are the
// same:
//
//	go run ./tests/supply sbom bin/dragoman   prints its parts, as CycloneDX
//	go run ./tests/supply same                builds it in two directories and compares
//
// It is run in the root of the module, and needs Go alone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "sbom":
		b, err := partsOf(ctx, args[1])
		if err != nil {
			return err
		}
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(b)
	case len(args) == 1 && args[0] == "same":
		sum, err := buildTwice(ctx, ".")
		if err == nil {
			fmt.Printf("two builds in different directories are the same: sha256 %s\n", sum)
		}
		return err
	}
	return errors.New("say sbom FILE, or same")
}
