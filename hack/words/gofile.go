// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"unicode"
)

// matchGo returns the hits in the identifiers, comments and string literals of a Go file. Import paths and struct tags are not
// prose. Generated files have no hits.
func matchGo(identifiers *identifierMatcher, words *wordMatcher, name string, text []byte) ([]Hit, error) {
	files := token.NewFileSet()

	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}

	if ast.IsGenerated(file) {
		return nil, nil
	}

	var (
		hits   []Hit
		offset = func(at token.Pos) int { return files.Position(at).Offset }
		tags   = map[*ast.BasicLit]bool{}
	)

	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			if node.Name != nil {
				hits = append(hits, identifiers.match(name, text, node.Name.Name, offset(node.Name.Pos()))...)
			}

			return false
		case *ast.Field:
			tags[node.Tag] = true
		case *ast.Ident:
			hits = append(hits, identifiers.match(name, text, node.Name, offset(node.Pos()))...)
		case *ast.BasicLit:
			if node.Kind == token.STRING && !tags[node] {
				hits = append(hits, words.match(name, text, unescape(node.Value), offset(node.Pos()))...)
			}
		}

		return true
	})

	for _, group := range file.Comments {
		start, end := offset(group.Pos()), offset(group.End())
		hits = append(hits, words.match(name, text, string(text[start:end]), start)...)
	}

	return hits, nil
}

// unescape replaces escaped white space of a literal by spaces, and keeps the length.
func unescape(literal string) string {
	return strings.NewReplacer(`\\`, `\\`, `\n`, "  ", `\t`, "  ").Replace(literal)
}

// identifierMatcher finds the identifiers of the dictionary.
type identifierMatcher struct {
	whole map[string]Rule
	// parts are the rules by the first of their words, in lower case.
	parts map[string][]part
}

type part struct {
	words []string
	rule  Rule
}

func newIdentifierMatcher(dictionary *Dictionary) *identifierMatcher {
	matcher := &identifierMatcher{whole: map[string]Rule{}, parts: map[string][]part{}}

	for _, rule := range dictionary.Identifiers {
		for _, name := range rule.Find {
			matcher.whole[name] = rule
		}
	}

	for _, rule := range dictionary.Parts {
		for _, name := range rule.Find {
			words := strings.Fields(strings.ToLower(name))
			matcher.parts[words[0]] = append(matcher.parts[words[0]], part{words: words, rule: rule})
		}
	}

	return matcher
}

// match returns at most one hit for an identifier at an offset of the text.
func (m *identifierMatcher) match(name string, text []byte, identifier string, offset int) []Hit {
	hit := func(term, use string) []Hit {
		number, line := lineAt(text, offset)

		return []Hit{{Path: name, Number: number, Line: line, Class: ClassIdentifier, Term: term, Identifier: identifier, Use: use}}
	}

	if rule, found := m.whole[identifier]; found && rule.appliesTo(name) {
		return hit(identifier, rule.Use)
	}

	words := split(identifier)
	for i := range words {
		for _, part := range m.parts[words[i]] {
			if part.rule.appliesTo(name) && hasPrefix(words[i:], part.words) && !isExcepted(part.rule, identifier) {
				return hit(strings.Join(part.words, " "), part.rule.Use)
			}
		}
	}

	return nil
}

// isExcepted is true if the identifier contains one of the longer terms in which the rule's terms are correct.
func isExcepted(rule Rule, identifier string) bool {
	joined := " " + strings.Join(split(identifier), " ") + " "

	for _, except := range rule.Except {
		if strings.Contains(joined, " "+strings.ToLower(except)+" ") {
			return true
		}
	}

	return false
}

func hasPrefix(words, prefix []string) bool {
	if len(words) < len(prefix) {
		return false
	}

	for i := range prefix {
		if words[i] != prefix[i] {
			return false
		}
	}

	return true
}

// split returns the words of an identifier in lower case: newHTTPStory is new, http and story.
func split(identifier string) []string {
	var (
		words []string
		runes = []rune(identifier)
		start = 0
	)

	end := func(at int) {
		if at > start {
			words = append(words, strings.ToLower(string(runes[start:at])))
		}

		start = at
	}

	for i, r := range runes {
		switch {
		case r == '_':
			end(i)
			start = i + 1
		case i == 0 || !unicode.IsUpper(r):
		case !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			end(i)
		}
	}

	end(len(runes))

	return words
}
