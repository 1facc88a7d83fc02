// SPDX-License-Identifier: Apache-2.0

// Package prose checks the wording of documentation, Go comments, messages, and commit subjects.
//
// The rules are in rules.txt and explained in docs/dev/style.md. The file exceptions.txt lists sentences that a rule
// rejects for no good reason, each with an explanation. The program in the folder sample prints random sentences for a
// reader to grade.
package prose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Class is the kind of a passage.
type Class string

// These are the classes of passages. Documentation is Markdown text. Messages are string constants that look like a
// sentence or the beginning of a sentence, such as errors, log messages, and help texts.
const (
	Documentation Class = "documentation"
	Comment       Class = "comment"
	Message       Class = "message"
)

// Passage is a text that is read as a whole, such as a paragraph, a list item, a comment, or a message.
type Passage struct {
	Class Class
	Path  string // path relative to the root of the repository, with slashes
	Line  int    // number of the first line, counted from 1
	Text  string // text on one line, without markup
}

// isSkipped reports whether a folder contains no text of the project. The documentation website is built in a temporary
// folder .stage-*, possibly while this test runs.
func isSkipped(folder string) bool {
	switch folder {
	case ".git", "node_modules", "testdata", "dist":
		return true
	}
	return strings.HasPrefix(folder, ".stage-")
}

// Passages returns all passages below root, in the order of their paths.
func Passages(root string) ([]Passage, error) {
	var all []Passage
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if isSkipped(name) {
				return filepath.SkipDir
			}
			return nil
		}
		markdown, code := strings.HasSuffix(name, ".md"), strings.HasSuffix(name, ".go")
		if !markdown && !code {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		short = filepath.ToSlash(short)
		if markdown {
			all = append(all, markdownPassages(short, string(source))...)
			return nil
		}
		found, err := goPassages(short, source)
		all = append(all, found...)
		return err
	})
	return all, err
}

var (
	codeSpan   = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	listMarker = regexp.MustCompile(`^\s*([-*+]|[0-9]+\.)\s+`)
	htmlTag    = regexp.MustCompile(`<[^>]*>`)
)

// markdownPassages returns the paragraphs, list items, headings, and table cells of a page.
func markdownPassages(path, source string) []Passage {
	var all []Passage
	var words []string
	start, fenced := 0, false
	flush := func() {
		if text := plain(strings.Join(words, " ")); text != "" {
			all = append(all, Passage{Documentation, path, start, text})
		}
		words = nil
	}
	add := func(line int, text string) {
		if len(words) == 0 {
			start = line
		}
		words = append(words, strings.TrimSpace(text))
	}
	for i, line := range strings.Split(source, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			fenced = !fenced
		case fenced:
		case trimmed == "":
			flush()
		case strings.HasPrefix(trimmed, "#"):
			flush()
			add(i+1, strings.TrimLeft(trimmed, "#"))
			flush()
		case strings.HasPrefix(trimmed, "|"):
			flush()
			for _, cell := range strings.Split(strings.ReplaceAll(trimmed, `\|`, " "), "|") {
				if strings.Trim(cell, " -:") != "" {
					add(i+1, cell)
					flush()
				}
			}
		case listMarker.MatchString(line):
			flush()
			add(i+1, listMarker.ReplaceAllString(line, ""))
		default:
			add(i+1, strings.TrimPrefix(trimmed, "> "))
		}
	}
	flush()
	return all
}

// plain removes Markdown markup. plain replaces code with the word CODE to preserve the structure of the sentence.
func plain(text string) string {
	text = codeSpan.ReplaceAllString(text, "CODE")
	text = link.ReplaceAllString(text, "$1")
	text = htmlTag.ReplaceAllString(text, "")
	text = strings.NewReplacer("**", "", "__", "").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// goPassages returns the comments and the messages of a Go file.
func goPassages(path string, source []byte) ([]Passage, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var all []Passage
	for _, group := range file.Comments {
		all = append(all, commentPassages(path, files.Position(group.Pos()).Line, group)...)
	}
	if strings.HasPrefix(path, "test/") || strings.HasSuffix(path, "_test.go") {
		return all, nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if text := helpOf(field); text != "" {
					all = append(all, Passage{Message, path, files.Position(field.Tag.Pos()).Line, text})
				}
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING || strings.HasPrefix(n.Value, "`") && structTag.MatchString(n.Value) {
				return false
			}
			if text, err := strconv.Unquote(n.Value); err == nil && isMessage(text) {
				text = strings.Join(strings.Fields(text), " ")
				all = append(all, Passage{Message, path, files.Position(n.Pos()).Line, text})
			}
		}
		return true
	})
	return all, nil
}

// structTag matches the tag of a field.
var structTag = regexp.MustCompile("^`[a-z]+:\"")

// helpOf returns the help text in the tag of a field.
func helpOf(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return ""
	}
	return reflect.StructTag(tag).Get("help")
}

// commentPassages returns the paragraphs of a comment, without directives, drawings, tables, and code.
func commentPassages(path string, line int, group *ast.CommentGroup) []Passage {
	var all []Passage
	var words []string
	start := line
	flush := func() {
		if text := strings.Join(words, " "); text != "" {
			all = append(all, Passage{Comment, path, start, text})
		}
		words = nil
	}
	for i, c := range group.List {
		text := strings.TrimPrefix(c.Text, "//")
		switch {
		case strings.HasPrefix(c.Text, "/*"), strings.HasPrefix(text, " SPDX"),
			text != "" && !strings.HasPrefix(text, " "):
			continue
		case strings.TrimSpace(text) == "", strings.HasPrefix(text, "  "), strings.HasPrefix(text, " \t"):
			flush()
			continue
		}
		if len(words) == 0 {
			start = line + i
		}
		words = append(words, strings.TrimSpace(text))
	}
	flush()
	return all
}

// messageShape matches the beginning of a message. A message has at least three words, of which the first is a plain
// word or a verb of package fmt.
var messageShape = regexp.MustCompile(`^[A-Za-z%"'][a-zA-Z%"',:-]*( +[^ ]+){2,}`)

// notMessage matches constants in CQL, SQL, HTML, or JavaScript that have the shape of a message.
var notMessage = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|BEGIN|GRANT|REVOKE|LIST|USE|` +
	`TRUNCATE|EXPLAIN|DESCRIBE|DESC|function|var|const|class|org\.|java\.)\b|[<>{}]{1}.*[<>{}]|;$|==`)

func isMessage(text string) bool {
	return messageShape.MatchString(text) && !notMessage.MatchString(text)
}

// abbreviation matches abbreviations that end with a period within a sentence.
var abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs|cf|No|approx)\.$`)

// Sentences divides text at the ends of its sentences.
func Sentences(text string) []string {
	var all []string
	words := strings.Fields(text)
	from := 0
	for i, word := range words {
		word = strings.TrimRight(word, `)"'*`)
		ends := strings.HasSuffix(word, ".") || strings.HasSuffix(word, "?") || strings.HasSuffix(word, "!")
		if i == len(words)-1 || ends && !abbreviation.MatchString(word) {
			all = append(all, strings.Join(words[from:i+1], " "))
			from = i + 1
		}
	}
	return all
}
