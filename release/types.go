package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checkTypes checks that a module, with its tests, would compile on a platform. It reads
// sources alone: to compile them for one platform takes five times as long, and what the
// types do not show is the same on all of them.
func checkTypes(ctx context.Context, root string, p platform) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-pgo=off",
		"-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly,Module,Error", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOWORK=off")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list for %s: %w\n%s", p, err, problems.Bytes())
	}
	c := typeChecker{platform: p, files: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var pkg listedPackage
		if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := c.check(&pkg); err != nil {
			return err
		}
	}
	return errors.Join(c.errs...)
}

// A listedPackage is what go list tells of a package, after those that it imports. One that
// is compiled for a test has the name of the test behind its path.
type listedPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	DepOnly         bool // it is not of the module
	Module          *struct{ GoVersion string }
	Error           *struct{ Err string }
}

// path returns the import path in the sources of others.
func (p *listedPackage) path() string {
	path, _, _ := strings.Cut(p.ImportPath, " ")
	return path
}

// A typeChecker checks packages for one platform.
type typeChecker struct {
	platform platform
	files    *token.FileSet
	done     map[string]*types.Package // by what go list calls them
	errs     []error
}

// maxTypeErrors is how many errors of one platform are shown.
const maxTypeErrors = 20

func (c *typeChecker) check(pkg *listedPackage) error {
	switch {
	case pkg.Error != nil:
		return fmt.Errorf("%s: %s: %s", c.platform, pkg.ImportPath, pkg.Error.Err)
	case pkg.ImportPath == "unsafe" || strings.HasSuffix(pkg.ImportPath, ".test"): // the main package of a test is made by go test
		return nil
	}
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{
		Importer:         importer{c.done, pkg.ImportMap},
		Sizes:            types.SizesFor("gc", c.platform.arch),
		IgnoreFuncBodies: pkg.DepOnly, // others have checked them
		Error: func(err error) {
			if len(c.errs) < maxTypeErrors {
				c.errs = append(c.errs, fmt.Errorf("%s: %w", c.platform, err))
			}
		},
	}
	if pkg.Module != nil {
		conf.GoVersion = "go" + cmp.Or(pkg.Module.GoVersion, "1.16") // as go build has it
	}
	made, _ := conf.Check(pkg.path(), c.files, files, nil) // Error has had its errors
	c.done[pkg.ImportPath] = made
	return nil
}

// An importer finds what has been checked, for one package.
type importer struct {
	done map[string]*types.Package
	as   map[string]string // what an import of the package means, where that is something else
}

func (i importer) Import(path string) (*types.Package, error) {
	if other, ok := i.as[path]; ok {
		path = other
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s was not listed", path)
}
