// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// followed returns the sections that end-to-end tests follow, as `page#section`. It reads them from the calls of Follow, such as
// `ns.Follow(ctx, page, section, placeholders)`, or `follow(section)` of a function that contains that call. Page and section are
// literals, or names of literals.
func followed() map[string]bool {
	GinkgoHelper()

	files, err := filepath.Glob(filepath.Join(root, "test", "e2e", "*_test.go"))
	Expect(err).NotTo(HaveOccurred())

	found := map[string]bool{}

	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		Expect(err).NotTo(HaveOccurred())

		s := &script{}
		ast.Inspect(syntax, s.define)
		ast.Inspect(syntax, func(node ast.Node) bool {
			if page, section := s.follows(node); page != "" && section != "" {
				found["docs/"+page+"#"+section] = true
			}

			return true
		})
	}

	return found
}

// script contains the named values of a test file.
type script struct {
	blocks []*ast.BlockStmt
	names  []name
}

// name is valid from its declaration to the end of its block: a text, or a function that follows a section of the named
// page.
type name struct {
	name, text string
	follows    bool
	from, to   token.Pos
}

// define records the names that a node declares.
func (s *script) define(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.BlockStmt:
		s.blocks = append(s.blocks, node)
	case *ast.ValueSpec:
		for i, value := range node.Values {
			s.give(node.Names[i], value)
		}
	case *ast.AssignStmt:
		for i, value := range node.Rhs {
			if left, is := node.Lhs[i].(*ast.Ident); is && node.Tok == token.DEFINE {
				s.give(left, value)
			}
		}
	}

	return true
}

func (s *script) give(to *ast.Ident, value ast.Expr) {
	given := name{name: to.Name, text: s.textOf(value), from: to.Pos(), to: token.Pos(1 << 30)}
	for _, block := range s.blocks {
		if block.Pos() < given.from && given.from < block.End() && block.End() < given.to {
			given.to = block.End()
		}
	}

	if function, is := value.(*ast.FuncLit); is {
		ast.Inspect(function.Body, func(node ast.Node) bool {
			if call, is := node.(*ast.CallExpr); is && isFollow(call) {
				given.text, given.follows = s.textOf(call.Args[1]), true
			}

			return true
		})
	}

	s.names = append(s.names, given)
}

// follows is the section that a node follows, if it does.
func (s *script) follows(node ast.Node) (page, section string) {
	call, is := node.(*ast.CallExpr)
	if !is {
		return "", ""
	}

	if isFollow(call) {
		return s.textOf(call.Args[1]), s.textOf(call.Args[2])
	}

	if function, is := call.Fun.(*ast.Ident); is && len(call.Args) == 1 {
		if meant := s.meaning(function); meant.follows {
			return meant.text, s.textOf(call.Args[0])
		}
	}

	return "", ""
}

func isFollow(call *ast.CallExpr) bool {
	selector, is := call.Fun.(*ast.SelectorExpr)

	return is && selector.Sel.Name == "Follow" && len(call.Args) == 4
}

// meaning is what a name means where it stands: what it was given last in the blocks around it.
func (s *script) meaning(used *ast.Ident) name {
	var meant name

	for _, given := range s.names {
		if given.name == used.Name && given.from < used.Pos() && used.Pos() < given.to {
			meant = given
		}
	}

	return meant
}

// textOf is the text of a literal, or of a name that means one. Empty: it is neither.
func (s *script) textOf(value ast.Expr) string {
	switch value := value.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(value.Value); err == nil && value.Kind == token.STRING {
			return text
		}
	case *ast.Ident:
		if meant := s.meaning(value); !meant.follows {
			return meant.text
		}
	}

	return ""
}
