// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// textIndexesMember is the member of an indexing policy with the full-text indexes.
const textIndexesMember = "fullTextIndexes"

// textPathsMax is the maximum number of paths of a full-text policy.
const textPathsMax = 100

// readTexts reads the full-text policy, and checks the full-text indexes.
func (d *Definition) readTexts(v document.Value) (document.Value, *Error) {
	policy := v.Get("fullTextPolicy")
	if isSet(policy) && policy.Kind() != document.Object {
		return v, Errorf(400, 0, "The full-text policy must be a JSON object.")
	}
	standard, e := textLanguage(policy.Get("defaultLanguage"), 0)
	if e != nil {
		return v, e
	}
	if standard != 0 {
		d.Schema.SetLanguage(nil, standard)
	}
	paths := policy.Get("fullTextPaths")
	if isSet(paths) && paths.Kind() != document.Array || paths.Len() > textPathsMax {
		return v, Errorf(400, 0, "The member 'fullTextPaths' of the full-text policy must be an array of at most %d objects "+
			"with a path and a language.", textPathsMax)
	}
	languages := map[string]fulltext.Language{}
	for p := range paths.Elements() {
		path, e := textPath(p, "Policy")
		if e != nil {
			return v, e
		}
		if _, twice := languages[path.String()]; twice {
			return v, Errorf(400, 0, "The Full Text Policy contains the path %s more than once.", path)
		}
		l, e := textLanguage(p.Get("language"), standard)
		if e != nil {
			return v, e
		}
		languages[path.String()] = l
		d.Schema.SetLanguage(path, l)
	}
	return v, d.readTextIndexes(v.Get("indexingPolicy").Get(textIndexesMember), languages)
}

// readTextIndexes reads the full-text indexes. languages holds the languages of the policy by path.
func (d *Definition) readTextIndexes(list document.Value, languages map[string]fulltext.Language) *Error {
	if isSet(list) && list.Kind() != document.Array {
		return Errorf(400, 0, "The member 'fullTextIndexes' of an indexing policy must be an array of objects with a path.")
	}
	known := map[string]bool{}
	for ix := range list.Elements() {
		path, e := textPath(ix, "Index")
		if e != nil {
			return e
		}
		l, ok := languages[path.String()]
		switch {
		case !ok:
			return Errorf(400, 0, "The path of the Full Text Index %s does not match the path specified in the Full Text Policy.",
				path)
		case known[path.String()]:
			return Errorf(400, 0, "The indexing policy contains the full-text index of the path %s more than once.", path)
		}
		known[path.String()] = true
		if !d.Index.None {
			d.Index.texts = append(d.Index.texts, newTextIndex(path, l))
		}
	}
	return nil
}

// textPath returns the path of a member of a full-text policy or of a full-text index.
func textPath(v document.Value, what string) (document.Path, *Error) {
	text := v.Get("path").Str()
	path, err := document.ParsePath(text)
	if err != nil || strings.ContainsAny(text, "*[]?") {
		return nil, Errorf(400, 0, "The Full Text %s contains an invalid path: %q. Use a path without wildcards, such as "+
			"/text.", what, text)
	}
	return path, nil
}

// textLanguage returns the language of a member of a full-text policy, or standard if the member does not exist.
func textLanguage(v document.Value, standard fulltext.Language) (fulltext.Language, *Error) {
	if !isSet(v) {
		return standard, nil
	}
	l, ok := fulltext.ParseLanguage(v.Str())
	if !ok {
		return 0, Errorf(400, 0, "The Full Text Policy contains an unsupported language %s. Supported languages are: %s.",
			v.Str(), strings.Join(fulltext.Languages(), ", "))
	}
	return l, nil
}
